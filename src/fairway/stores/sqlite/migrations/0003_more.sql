-- What few jobs have (a deadline, jobs they wait for, a group...) as JSON, NULL for all others; state 6: blocked.
ALTER TABLE job ADD COLUMN extras TEXT;
ALTER TABLE ended ADD COLUMN extras TEXT;

-- A key may outlive its job: until this time. `over`: the job has ended.
ALTER TABLE claim ADD COLUMN until INTEGER;
ALTER TABLE claim ADD COLUMN over INTEGER NOT NULL DEFAULT 0;
CREATE INDEX claim_over ON claim (until) WHERE over;

-- Every change of a queue's settings: who, when, and both values. NULL: there was, or is, no row.
CREATE TABLE queue_change (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  path TEXT NOT NULL,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  old BLOB,
  new BLOB
) STRICT;

CREATE INDEX queue_change_by_path ON queue_change (path, number);
