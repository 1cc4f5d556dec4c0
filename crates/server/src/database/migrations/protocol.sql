-- A portfolio's members are artifacts of other collections, linked to it; a deleted collection gives its name away.
ALTER TABLE collections ADD COLUMN is_portfolio BIGINT NOT NULL DEFAULT 0;
ALTER TABLE collections ADD COLUMN is_deleted BIGINT NOT NULL DEFAULT 0;
ALTER TABLE collections ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
CREATE TABLE artifact_links (
  id {id}, collection_id BIGINT NOT NULL REFERENCES collections (id), artifact_id BIGINT NOT NULL REFERENCES artifacts (id),
  version BIGINT NOT NULL, created_at BIGINT NOT NULL, UNIQUE (collection_id, artifact_id)
);
CREATE INDEX artifact_links_by_artifact ON artifact_links (artifact_id);
-- distributed_id: several runs fill the same artifact. base_id: what its manifest adds to.
ALTER TABLE artifacts ADD COLUMN distributed_id TEXT;
ALTER TABLE artifacts ADD COLUMN base_id BIGINT;

-- How many lines of a stream each of several processes has sent to the run that they share.
CREATE TABLE writers (
  run_id BIGINT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, client TEXT NOT NULL, stream TEXT NOT NULL,
  lines BIGINT NOT NULL, PRIMARY KEY (run_id, client, stream)
);

-- started_at is when an agent began with it, ended_at when that was over. attempt counts how often it was put back
-- after its process was preempted. A queue has no more items at once than its limits.
ALTER TABLE items ADD COLUMN started_at BIGINT;
ALTER TABLE items ADD COLUMN ended_at BIGINT;
ALTER TABLE items ADD COLUMN attempt BIGINT NOT NULL DEFAULT 0;
CREATE INDEX items_by_name ON items (queue_id, run_name);
ALTER TABLE queues ADD COLUMN running_max BIGINT;
ALTER TABLE queues ADD COLUMN pending_max BIGINT;

CREATE INDEX sweep_runs_by_agent ON sweep_runs (agent_id);
