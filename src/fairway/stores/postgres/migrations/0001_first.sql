-- The first schema. docs/reference/schema.md says what each table is for.
-- `fairway.` stands for the scheduler's own schema. States: 0 waiting, 1 running, 2 succeeded, 3 failed,
-- 4 cancelled, 5 unknown. Times are microseconds since 1970.

CREATE TABLE fairway.meta (
  key text PRIMARY KEY,
  value text NOT NULL
);

-- Hot: waiting and running jobs. No column that begin and return change is indexed, and pages are left partly
-- empty: so the new version of a row stays on its page and no index is touched.
CREATE TABLE fairway.job (
  id bigint PRIMARY KEY,
  state smallint NOT NULL DEFAULT 0,
  queue text NOT NULL,
  flow text,
  priority integer NOT NULL,
  adapter text NOT NULL,
  task text NOT NULL,
  tags text,
  once boolean NOT NULL,
  run_at bigint NOT NULL,
  place bigint NOT NULL,
  created_at bigint NOT NULL,
  attempt integer NOT NULL DEFAULT 0,
  tries integer NOT NULL DEFAULT 0,
  crashes integer NOT NULL DEFAULT 0,
  losses bytea,
  generation integer NOT NULL DEFAULT 0,
  cancelling boolean NOT NULL DEFAULT false,
  incarnation text,
  worker text,
  started_at bigint,
  ended_at bigint,
  rules bytea,
  unique_key text,
  outcome bytea,
  payload bytea NOT NULL
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Where a new leader looks for what runs, without reading the backlog: the jobs that were begun together, as long
-- as one of them is live. A job named here need not run any more; one that runs is named here.
CREATE TABLE fairway.begun (
  number bigint PRIMARY KEY,
  jobs bigint[] NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Finished jobs, moved here by the commit that finishes them.
CREATE TABLE fairway.ended (
  id bigint PRIMARY KEY,
  state smallint NOT NULL,
  queue text NOT NULL,
  flow text,
  priority integer NOT NULL,
  adapter text NOT NULL,
  task text NOT NULL,
  tags text,
  once boolean NOT NULL,
  run_at bigint NOT NULL,
  place bigint NOT NULL,
  created_at bigint NOT NULL,
  attempt integer NOT NULL,
  tries integer NOT NULL,
  crashes integer NOT NULL,
  losses bytea,
  generation integer NOT NULL,
  cancelling boolean NOT NULL DEFAULT false,
  incarnation text,
  worker text,
  started_at bigint,
  ended_at bigint NOT NULL,
  rules bytea,
  unique_key text,
  outcome bytea,
  payload bytea NOT NULL
);

-- Rows come in the order of this column, so a few bytes for each range of pages will do.
CREATE INDEX ended_by_time ON fairway.ended USING brin (ended_at) WITH (autosummarize = on);
CREATE INDEX ended_badly ON fairway.ended (state, id) WHERE state <> 2;

CREATE TABLE fairway.claim (
  scope text NOT NULL,
  key text NOT NULL,
  job bigint NOT NULL,
  PRIMARY KEY (scope, key)
);

CREATE TABLE fairway.request (
  key text PRIMARY KEY,
  digest bytea NOT NULL,
  ids bytea NOT NULL,
  created_at bigint NOT NULL
);

CREATE INDEX request_by_time ON fairway.request (created_at);

-- What the leader has not taken in, a row for each submission. A number is drawn before its transaction commits, so
-- it says nothing about what is still to come: `xid` does. `concurrency` has, beside each job, the limit that its
-- submitter wants for the queue; NULL if nobody wants one.
CREATE TABLE fairway.arrival (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  jobs bigint[] NOT NULL,
  concurrency integer[],
  xid xid8 NOT NULL DEFAULT pg_current_xact_id()
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX arrival_by_transaction ON fairway.arrival (xid);

CREATE TABLE fairway.queue (
  path text PRIMARY KEY,
  settings bytea NOT NULL,
  created_at bigint NOT NULL
);

-- Changes only at an election; the beat stands apart, since a renewal would wait for every commit's lock.
CREATE TABLE fairway.leader (
  one smallint PRIMARY KEY CHECK (one = 1),
  term bigint NOT NULL,
  holder text NOT NULL,
  name text NOT NULL,
  url text NOT NULL,
  elected_at bigint NOT NULL
);

CREATE TABLE fairway.beat (
  one smallint PRIMARY KEY CHECK (one = 1),
  beat bigint NOT NULL,
  asleep boolean NOT NULL
) WITH (fillfactor = 50);

INSERT INTO fairway.beat VALUES (1, 0, true);

CREATE TABLE fairway.leader_history (
  term bigint PRIMARY KEY,
  holder text NOT NULL,
  name text NOT NULL,
  url text NOT NULL,
  elected_at bigint NOT NULL
);

CREATE TABLE fairway.node (
  incarnation text PRIMARY KEY,
  name text NOT NULL,
  url text NOT NULL,
  version text NOT NULL,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL
) WITH (fillfactor = 50);

-- One row per commit, numbered without gaps by the leader. `written` is the sum of all bodies up to this one: the
-- difference of two rows says how much stands between them without reading it.
CREATE TABLE fairway.event (
  number bigint PRIMARY KEY,
  at bigint NOT NULL,
  written bigint NOT NULL,
  body bytea NOT NULL
);

CREATE TABLE fairway.log (
  job bigint NOT NULL,
  attempt integer NOT NULL,
  number bigint NOT NULL,
  at bigint NOT NULL,
  stream text NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (job, attempt, number)
);
