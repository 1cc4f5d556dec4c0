-- Credentials of launches: each opens the run of one attempt of one item while that lasts.
CREATE TABLE run_tokens (
  digest TEXT PRIMARY KEY, item_id BIGINT NOT NULL REFERENCES items (id) ON DELETE CASCADE, attempt BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX run_tokens_by_item ON run_tokens (item_id);
