-- Failures by cause: what failed alike is one row here; each ended job that failed names its cause.
CREATE TABLE cause (
  id TEXT PRIMARY KEY,
  task TEXT NOT NULL,
  type TEXT NOT NULL,
  message TEXT NOT NULL,
  frame TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  muted_until INTEGER
) STRICT, WITHOUT ROWID;

ALTER TABLE ended ADD COLUMN cause TEXT;
CREATE INDEX ended_by_cause ON ended (cause, id) WHERE cause IS NOT NULL;
