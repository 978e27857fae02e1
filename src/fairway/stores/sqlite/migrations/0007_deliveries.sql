-- Calls that tell of a job's end: made in the commit that ends it, gone when the receiver has taken them.
CREATE TABLE delivery (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  url TEXT NOT NULL,
  host TEXT NOT NULL,
  body BLOB NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER NOT NULL,
  made_at INTEGER NOT NULL
) STRICT;

CREATE INDEX delivery_due ON delivery (due_at);
