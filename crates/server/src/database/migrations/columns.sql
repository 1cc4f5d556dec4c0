-- The values of runs by field, packs of runs at a time, so that a search reads what it asks for; they take the place of the
-- fields that had to be learned. A pack is called by the first run that it is for; the column without a name says which runs it has.
DROP TABLE search_values;
DROP TABLE search_fields;
CREATE TABLE run_columns (
  project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE, name TEXT NOT NULL, pack BIGINT NOT NULL,
  cells TEXT NOT NULL, PRIMARY KEY (project_id, name, pack)
);
CREATE INDEX run_columns_of_pack ON run_columns (project_id, pack);
-- 1 as long as a run's values are those of its pack, 0 before it has one, -1 when it has changed since.
UPDATE runs SET is_indexed = 0 WHERE is_indexed <> 0;
DROP INDEX runs_unindexed;
CREATE INDEX runs_unpacked ON runs (project_id, id) WHERE is_indexed < 1;
