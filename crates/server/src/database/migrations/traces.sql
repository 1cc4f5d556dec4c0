-- A queue that was deleted while something of it ran is kept until that has ended.
ALTER TABLE queues ADD COLUMN deleted_at BIGINT;

-- Runs that logged content which was there already.
CREATE TABLE artifact_makers (
  artifact_id BIGINT NOT NULL REFERENCES artifacts (id), run_id BIGINT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  PRIMARY KEY (artifact_id, run_id)
);
CREATE INDEX artifact_makers_by_run ON artifact_makers (run_id);
