-- What happened to an item and when: a new state, or another reason to wait. That it was submitted is the item's own row.
CREATE TABLE item_steps (
  id {id}, item_id BIGINT NOT NULL REFERENCES items (id) ON DELETE CASCADE, at BIGINT NOT NULL, state TEXT NOT NULL,
  attempt BIGINT NOT NULL, waiting TEXT
);
CREATE INDEX item_steps_by_item ON item_steps (item_id, id);

-- How an agent last saw its cluster: JSON. cluster names the same cluster for all agents that use it.
CREATE TABLE clusters (
  agent_id BIGINT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE, cluster TEXT NOT NULL, at BIGINT NOT NULL,
  body TEXT NOT NULL
);
