-- Schedules. `spec` is what was asked for, `progress` where it stands; both are JSON. Each write gives a new revision.
CREATE TABLE fairway.schedule (
  name text PRIMARY KEY,
  revision bigint NOT NULL,
  spec bytea NOT NULL,
  progress bytea NOT NULL,
  created_at bigint NOT NULL,
  changed_at bigint NOT NULL
) WITH (fillfactor = 50);
