-- How often the parameters were given out; those of a run that never came are given out again.
ALTER TABLE sweep_runs ADD COLUMN times BIGINT NOT NULL DEFAULT 1;
