-- What our own agent needs beyond W&B's operations.
-- has_own_args: the spec came with resource_args, so they are not the queue's. config_id: the queue's config when it was
-- pushed. keeper: 'agent' where an agent of ours says when the work is over. stop_by: who wants it to end.
-- place and manifest: JSON, as the agent noted them.
ALTER TABLE items ADD COLUMN has_own_args BIGINT NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN config_id BIGINT;
ALTER TABLE items ADD COLUMN keeper TEXT;
ALTER TABLE items ADD COLUMN is_stop_asked BIGINT NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN stop_by TEXT;
ALTER TABLE items ADD COLUMN was_stopped BIGINT NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN exit_code BIGINT;
ALTER TABLE items ADD COLUMN place TEXT;
ALTER TABLE items ADD COLUMN manifest TEXT;
UPDATE items SET config_id = (SELECT q.config_id FROM queues q WHERE q.id = items.queue_id);
CREATE INDEX items_by_end ON items (queue_id, ended_at);

-- Submissions that carried a key of their own, so that sending one again finds what it made.
CREATE TABLE submissions (
  user_id BIGINT NOT NULL, key TEXT NOT NULL, item_id BIGINT NOT NULL REFERENCES items (id) ON DELETE CASCADE,
  created_at BIGINT NOT NULL, PRIMARY KEY (user_id, key)
);
CREATE INDEX submissions_by_item ON submissions (item_id);
CREATE INDEX submissions_by_age ON submissions (created_at);
