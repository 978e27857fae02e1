-- Schedules. `spec` is what was asked for, `progress` where it stands; both are JSON. Each write gives a new revision.
CREATE TABLE schedule (
  name TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  spec BLOB NOT NULL,
  progress BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
