-- A sweep's runs, and what a run has made.
CREATE INDEX runs_by_sweep ON runs (project_id, sweep_name, id);
CREATE INDEX artifacts_by_run ON artifacts (run_id);
-- Under which artifacts the same bytes are kept.
CREATE INDEX blobs_by_md5 ON blobs (md5, artifact_id);
