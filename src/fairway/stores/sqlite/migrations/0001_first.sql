-- The first schema. docs/reference/schema.md says what each table is for.
-- States: 0 waiting, 1 running, 2 succeeded, 3 failed, 4 cancelled, 5 unknown.

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Hot: waiting and running jobs. The columns that begin and return change carry no index; `live` holds
-- running rows only, so that a new leader finds them without reading the backlog.
CREATE TABLE job (
  id INTEGER PRIMARY KEY,
  state INTEGER NOT NULL DEFAULT 0,
  queue TEXT NOT NULL,
  flow TEXT,
  priority INTEGER NOT NULL,
  adapter TEXT NOT NULL,
  task TEXT NOT NULL,
  tags TEXT,
  once INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  place INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0,
  tries INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  losses BLOB,
  generation INTEGER NOT NULL DEFAULT 0,
  cancelling INTEGER NOT NULL DEFAULT 0,
  incarnation TEXT,
  worker TEXT,
  started_at INTEGER,
  rules BLOB,
  unique_key TEXT,
  outcome BLOB,
  payload BLOB NOT NULL
) STRICT;

CREATE INDEX live ON job (id) WHERE state = 1;

-- Finished jobs, moved here by the commit that finishes them.
CREATE TABLE ended (
  id INTEGER PRIMARY KEY,
  state INTEGER NOT NULL,
  queue TEXT NOT NULL,
  flow TEXT,
  priority INTEGER NOT NULL,
  adapter TEXT NOT NULL,
  task TEXT NOT NULL,
  tags TEXT,
  once INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  place INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  losses BLOB,
  generation INTEGER NOT NULL,
  incarnation TEXT,
  worker TEXT,
  started_at INTEGER,
  ended_at INTEGER NOT NULL,
  rules BLOB,
  unique_key TEXT,
  outcome BLOB,
  payload BLOB NOT NULL
) STRICT;

CREATE INDEX ended_by_time ON ended (ended_at);
CREATE INDEX ended_badly ON ended (state, id) WHERE state <> 2;

CREATE TABLE claim (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  job INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (
  key TEXT PRIMARY KEY,
  digest BLOB NOT NULL,
  ids BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX request_by_time ON request (created_at);

-- AUTOINCREMENT: numbers follow the order of commits and are never used twice. `concurrency` is the limit
-- the submitter wants for the queue, which the leader sets when it takes the job in.
CREATE TABLE arrival (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  concurrency INTEGER
) STRICT;

CREATE TABLE queue (
  path TEXT PRIMARY KEY,
  settings BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE leader (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  term INTEGER NOT NULL,
  holder TEXT NOT NULL,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  elected_at INTEGER NOT NULL
) STRICT;

CREATE TABLE beat (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  beat INTEGER NOT NULL,
  asleep INTEGER NOT NULL
) STRICT;

INSERT INTO beat VALUES (1, 0, 0);

CREATE TABLE leader_history (
  term INTEGER PRIMARY KEY,
  holder TEXT NOT NULL,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  elected_at INTEGER NOT NULL
) STRICT;

CREATE TABLE node (
  incarnation TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  version TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per commit. `written` is the sum of all bodies up to this one: the difference of two rows
-- says how much stands between them without reading it.
CREATE TABLE event (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  written INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE log (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  stream TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (job, attempt, number)
) STRICT, WITHOUT ROWID;
