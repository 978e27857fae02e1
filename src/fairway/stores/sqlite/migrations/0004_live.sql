-- Running attempts stand apart: a begin then writes to a few pages that are always the same, instead of to the page
-- of each job. A row in `job` says how it waits, or waited; one that is also in `live` runs.
DROP INDEX live;

CREATE TABLE live (
  id INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  incarnation TEXT NOT NULL,
  worker TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  cancelling INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO live (id, attempt, incarnation, worker, started_at, cancelling)
SELECT id, attempt, incarnation, worker, started_at, cancelling
  FROM job
 WHERE state = 1;

UPDATE job SET state = 0, cancelling = 0 WHERE state = 1;

CREATE VIEW hot AS
SELECT job.id, CASE WHEN live.id IS NULL THEN job.state ELSE 1 END AS state, queue, flow, priority, adapter, task,
       tags, once, run_at, place, created_at, coalesce(live.attempt, job.attempt) AS attempt, tries, crashes, losses,
       generation, coalesce(live.cancelling, 0) AS cancelling,
       coalesce(live.incarnation, job.incarnation) AS incarnation, coalesce(live.worker, job.worker) AS worker,
       coalesce(live.started_at, job.started_at) AS started_at, rules, unique_key, outcome, payload, extras
  FROM job
  LEFT JOIN live ON live.id = job.id;

-- Ended jobs in the order in which they ended: each goes to the last page, whatever order their ids are in.
CREATE TABLE ended_in_order (
  number INTEGER PRIMARY KEY,
  id INTEGER NOT NULL UNIQUE,
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
  payload BLOB NOT NULL,
  extras TEXT
) STRICT;

INSERT INTO ended_in_order (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
  crashes, losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras
)
SELECT id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
       crashes, losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
       extras
  FROM ended
 ORDER BY ended_at, id;

DROP TABLE ended;
ALTER TABLE ended_in_order RENAME TO ended;
CREATE INDEX ended_by_time ON ended (ended_at);
CREATE INDEX ended_badly ON ended (state, id) WHERE state <> 2;
