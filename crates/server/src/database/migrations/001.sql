-- {id} and {bytes} are the words in which the engines differ. Times are microseconds since 1970, truth is 0 or 1.

CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE entities (
  id {id}, name TEXT NOT NULL UNIQUE, is_team BIGINT NOT NULL, created_at BIGINT NOT NULL
);
CREATE TABLE users (
  id {id}, username TEXT NOT NULL UNIQUE, name TEXT NOT NULL, email TEXT,
  is_admin BIGINT NOT NULL, is_service BIGINT NOT NULL,
  entity_id BIGINT NOT NULL REFERENCES entities (id), created_at BIGINT NOT NULL, deleted_at BIGINT
);
CREATE TABLE members (
  entity_id BIGINT NOT NULL REFERENCES entities (id), user_id BIGINT NOT NULL REFERENCES users (id),
  role TEXT NOT NULL, PRIMARY KEY (entity_id, user_id)
);
CREATE INDEX members_by_user ON members (user_id);
-- digest is the SHA-256 of the key; the key itself is shown once and kept nowhere.
CREATE TABLE api_keys (
  id {id}, user_id BIGINT NOT NULL REFERENCES users (id), name TEXT NOT NULL, digest TEXT NOT NULL UNIQUE,
  hint TEXT NOT NULL, created_at BIGINT NOT NULL, used_at BIGINT, revoked_at BIGINT
);
CREATE TABLE audit (
  id {id}, at BIGINT NOT NULL, user_id BIGINT, deed TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE TABLE events (
  id {id}, at BIGINT NOT NULL, entity_id BIGINT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL
);

-- folded is the name in lower case: look-ups ignore case, the first spelling is kept.
CREATE TABLE projects (
  id {id}, entity_id BIGINT NOT NULL REFERENCES entities (id), name TEXT NOT NULL, folded TEXT NOT NULL,
  description TEXT, access TEXT, views TEXT, user_id BIGINT, created_at BIGINT NOT NULL,
  UNIQUE (entity_id, folded)
);

CREATE TABLE runs (
  id {id}, project_id BIGINT NOT NULL REFERENCES projects (id), name TEXT NOT NULL, display_name TEXT NOT NULL,
  description TEXT, notes TEXT, tags TEXT NOT NULL, config TEXT NOT NULL, summary TEXT NOT NULL,
  group_name TEXT, job_type TEXT, commit_hash TEXT, host TEXT, program TEXT, repo TEXT, sweep_name TEXT,
  state TEXT NOT NULL, is_stopped BIGINT NOT NULL, exit_code BIGINT, user_id BIGINT NOT NULL REFERENCES users (id),
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, heartbeat_at BIGINT NOT NULL,
  history_lines BIGINT NOT NULL, event_lines BIGINT NOT NULL, log_lines BIGINT NOT NULL,
  history_keys TEXT NOT NULL, system_metrics TEXT NOT NULL,
  UNIQUE (project_id, name)
);
CREATE INDEX runs_by_age ON runs (project_id, created_at, id);
CREATE INDEX runs_by_heartbeat ON runs (state, heartbeat_at);
-- A piece of one of a run's streams: `count` lines from line `first`, encoded and compressed. low and high are the
-- least and the greatest _step in it.
CREATE TABLE segments (
  run_id BIGINT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, stream TEXT NOT NULL, first BIGINT NOT NULL,
  count BIGINT NOT NULL, low BIGINT, high BIGINT, body {bytes} NOT NULL, PRIMARY KEY (run_id, stream, first)
);
CREATE TABLE files (
  id {id}, run_id BIGINT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL, size BIGINT NOT NULL,
  md5 TEXT, mimetype TEXT, is_stored BIGINT NOT NULL, updated_at BIGINT NOT NULL, UNIQUE (run_id, name)
);

CREATE TABLE artifact_types (
  id {id}, project_id BIGINT NOT NULL REFERENCES projects (id), name TEXT NOT NULL, description TEXT,
  created_at BIGINT NOT NULL, UNIQUE (project_id, name)
);
CREATE TABLE collections (
  id {id}, project_id BIGINT NOT NULL REFERENCES projects (id), type_id BIGINT NOT NULL REFERENCES artifact_types (id),
  name TEXT NOT NULL, description TEXT, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
  versions BIGINT NOT NULL, UNIQUE (project_id, name)
);
-- wanted is the JSON list of aliases that the artifact gets when it is committed.
CREATE TABLE artifacts (
  id {id}, collection_id BIGINT NOT NULL REFERENCES collections (id), client_id TEXT UNIQUE, digest TEXT NOT NULL,
  state TEXT NOT NULL, version BIGINT, description TEXT, metadata TEXT, ttl BIGINT, size BIGINT NOT NULL,
  file_count BIGINT NOT NULL, run_id BIGINT, user_id BIGINT NOT NULL, history_step BIGINT, wanted TEXT NOT NULL,
  tags TEXT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL
);
CREATE INDEX artifacts_by_collection ON artifacts (collection_id, version);
CREATE TABLE aliases (
  id {id}, collection_id BIGINT NOT NULL REFERENCES collections (id), alias TEXT NOT NULL,
  artifact_id BIGINT NOT NULL REFERENCES artifacts (id), UNIQUE (collection_id, alias)
);
CREATE INDEX aliases_by_artifact ON aliases (artifact_id);
CREATE TABLE manifests (
  id {id}, artifact_id BIGINT NOT NULL REFERENCES artifacts (id), name TEXT NOT NULL, kind TEXT NOT NULL,
  digest TEXT NOT NULL, UNIQUE (artifact_id, name, kind)
);
CREATE TABLE entries (
  artifact_id BIGINT NOT NULL REFERENCES artifacts (id), name TEXT NOT NULL, digest TEXT NOT NULL, size BIGINT NOT NULL,
  ref TEXT, birth_id BIGINT, PRIMARY KEY (artifact_id, name)
);
-- The bytes that were uploaded under an artifact, by the hexadecimal MD5 of their content.
CREATE TABLE blobs (
  artifact_id BIGINT NOT NULL REFERENCES artifacts (id), md5 TEXT NOT NULL, size BIGINT NOT NULL,
  PRIMARY KEY (artifact_id, md5)
);
CREATE TABLE artifact_uses (
  artifact_id BIGINT NOT NULL REFERENCES artifacts (id), run_id BIGINT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  used_as TEXT, PRIMARY KEY (artifact_id, run_id)
);
CREATE INDEX artifact_uses_by_run ON artifact_uses (run_id);

CREATE TABLE resource_configs (
  id {id}, entity_id BIGINT NOT NULL REFERENCES entities (id), resource TEXT NOT NULL, config TEXT NOT NULL,
  variables TEXT NOT NULL, user_id BIGINT NOT NULL, created_at BIGINT NOT NULL
);
CREATE TABLE queues (
  id {id}, project_id BIGINT NOT NULL REFERENCES projects (id), name TEXT NOT NULL, access TEXT NOT NULL,
  mode TEXT NOT NULL, config_id BIGINT REFERENCES resource_configs (id), links TEXT NOT NULL,
  user_id BIGINT NOT NULL REFERENCES users (id), created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
  UNIQUE (project_id, name)
);
-- rank is the priority where the queue has priorities, else the same for all. lease counts how often it was handed out;
-- who holds an older lease is refused.
CREATE TABLE items (
  id {id}, queue_id BIGINT NOT NULL REFERENCES queues (id) ON DELETE CASCADE, state TEXT NOT NULL, spec TEXT NOT NULL,
  template_values TEXT NOT NULL, priority BIGINT NOT NULL, rank BIGINT NOT NULL, lease BIGINT NOT NULL,
  leased_until BIGINT, agent_id BIGINT, run_name TEXT, run_id BIGINT, error TEXT, warnings TEXT NOT NULL,
  user_id BIGINT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL
);
CREATE INDEX items_to_pop ON items (queue_id, state, rank, id);
CREATE INDEX items_by_run ON items (run_id);
CREATE TABLE agents (
  id {id}, project_id BIGINT NOT NULL REFERENCES projects (id), name TEXT NOT NULL UNIQUE, hostname TEXT NOT NULL,
  queues TEXT NOT NULL, status TEXT NOT NULL, is_told_to_stop BIGINT NOT NULL, config TEXT, version TEXT,
  user_id BIGINT NOT NULL, created_at BIGINT NOT NULL, heartbeat_at BIGINT NOT NULL
);

CREATE TABLE sweeps (
  id {id}, project_id BIGINT NOT NULL REFERENCES projects (id), name TEXT NOT NULL, display_name TEXT, state TEXT NOT NULL,
  description TEXT, config TEXT NOT NULL, controller TEXT, scheduler TEXT, user_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, heartbeat_at BIGINT, UNIQUE (project_id, name)
);
CREATE TABLE sweep_agents (
  id {id}, sweep_id BIGINT NOT NULL REFERENCES sweeps (id), name TEXT NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,
  created_at BIGINT NOT NULL, heartbeat_at BIGINT NOT NULL
);
CREATE TABLE sweep_runs (
  sweep_id BIGINT NOT NULL REFERENCES sweeps (id), run_name TEXT NOT NULL, agent_id BIGINT NOT NULL, params TEXT NOT NULL,
  state TEXT NOT NULL, PRIMARY KEY (sweep_id, run_name)
);
