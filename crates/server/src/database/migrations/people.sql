-- People: passwords, sessions, sign-in links, quotas, who may use a queue, what a queue was before.

ALTER TABLE users ADD COLUMN password TEXT;
ALTER TABLE api_keys ADD COLUMN expires_at BIGINT;
-- From where: the address of the one who did it.
ALTER TABLE audit ADD COLUMN address TEXT;
CREATE INDEX audit_by_subject ON audit (subject, id);

-- digest is the SHA-256 of what the cookie holds.
CREATE TABLE sessions (
  id {id}, user_id BIGINT NOT NULL REFERENCES users (id), digest TEXT NOT NULL UNIQUE, created_at BIGINT NOT NULL,
  used_at BIGINT NOT NULL, expires_at BIGINT NOT NULL
);
-- Sign-in links; each is deleted when it is used.
CREATE TABLE links (
  digest TEXT PRIMARY KEY, user_id BIGINT NOT NULL REFERENCES users (id), expires_at BIGINT NOT NULL
);
-- Of a user's own entity or of a team; null is no limit.
CREATE TABLE quotas (entity_id BIGINT PRIMARY KEY REFERENCES entities (id), jobs BIGINT, gpus BIGINT);

-- A JSON object of user ids and roles.
ALTER TABLE queues ADD COLUMN grants TEXT NOT NULL DEFAULT '{}';
CREATE TABLE queue_history (
  id {id}, queue_id BIGINT NOT NULL REFERENCES queues (id) ON DELETE CASCADE, config_id BIGINT, mode TEXT NOT NULL,
  links TEXT NOT NULL, user_id BIGINT NOT NULL, at BIGINT NOT NULL
);
CREATE INDEX queue_history_by_queue ON queue_history (queue_id, id);
-- waiting is why an item is not handed out although it is its turn.
ALTER TABLE items ADD COLUMN gpus BIGINT NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN waiting TEXT;
CREATE INDEX items_by_user ON items (user_id, state);
