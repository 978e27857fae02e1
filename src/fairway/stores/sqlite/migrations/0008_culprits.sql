-- Calls, and stored jobs that were to be taken in, on which leaders ended by an error of their own.
CREATE TABLE culprit (
  digest TEXT PRIMARY KEY,
  what TEXT NOT NULL,
  error TEXT NOT NULL,
  job INTEGER,
  leaders INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL
) STRICT;
