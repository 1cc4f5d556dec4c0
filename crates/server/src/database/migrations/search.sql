-- Fields that people have searched runs by, and their values as keys whose order is the values', so that the next search need
-- not read every run. done_to is the run up to which a field's values are there; the greatest number when all are.
CREATE TABLE search_fields (
  id {id}, project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE, name TEXT NOT NULL,
  done_to BIGINT NOT NULL, used_at BIGINT NOT NULL, UNIQUE (project_id, name)
);
CREATE TABLE search_values (
  run_id BIGINT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  field_id BIGINT NOT NULL REFERENCES search_fields (id) ON DELETE CASCADE,
  value {bytes} NOT NULL, PRIMARY KEY (run_id, field_id, value)
);
CREATE INDEX search_values_by_value ON search_values (field_id, value, run_id);
-- 0 as long as a run's values are not those above, or no longer.
ALTER TABLE runs ADD COLUMN is_indexed BIGINT NOT NULL DEFAULT 0;
CREATE INDEX runs_unindexed ON runs (project_id, id) WHERE is_indexed = 0;

-- How many runs a project has had: the number in the label of the next one.
CREATE TABLE run_counters (
  project_id BIGINT PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE, begun BIGINT NOT NULL
);
INSERT INTO run_counters (project_id, begun) SELECT project_id, COUNT(*) FROM runs GROUP BY project_id;
