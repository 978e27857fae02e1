-- What a running attempt says of itself: how far it is, where a next attempt may go on, what it has used.
CREATE TABLE note (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  progress REAL,
  text TEXT NOT NULL DEFAULT '',
  checkpoint BLOB,
  cpu_seconds REAL,
  memory_bytes INTEGER,
  at INTEGER NOT NULL,
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;
