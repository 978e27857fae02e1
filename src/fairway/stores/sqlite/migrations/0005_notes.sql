-- What a running attempt says of itself: how far it is, where a next attempt may go on, what it has used. Only the
-- newest checkpoint of a job is kept; `first_...` is the first progress, from which a rate is counted.
CREATE TABLE note (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  progress REAL,
  text TEXT NOT NULL DEFAULT '',
  checkpoint BLOB,
  cpu_seconds REAL,
  memory_bytes INTEGER,
  at INTEGER NOT NULL,
  first_progress REAL,
  first_at INTEGER,
  progress_at INTEGER,
  checkpoint_at INTEGER,
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;
