-- Which lines of a segment of the history have which keys; without it the lines are asked.
ALTER TABLE segments ADD COLUMN presence {bytes};
-- Leases that ran out are found without looking at those that hold.
CREATE INDEX items_by_lease ON items (queue_id, state, leased_until);
-- Pages of a project's runs, newest first, and of those in one state.
CREATE INDEX runs_by_number ON runs (project_id, id);
CREATE INDEX runs_by_state ON runs (project_id, state, id);
