-- Every statement of the PostgreSQL store but those that a search composes. `fairway.` stands for the scheduler's
-- own schema. Times are passed in, every write about an attempt is fenced. A statement that writes many rows takes
-- an array for each column. States: 0 waiting, 1 running, 2 succeeded, 3 failed, 4 cancelled, 5 unknown, 6 blocked.

-- === submit ===

-- name: reserve_request
-- Returns a row for each key to whoever asks this first. One who asks the same at the same time waits here for the other.
INSERT INTO fairway.request AS r (key, digest, ids, created_at)
SELECT new.key, new.digest, new.ids, new.created_at
  FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[]) AS new (key, digest, ids, created_at)
ON CONFLICT (key) DO UPDATE
   SET digest = excluded.digest, ids = excluded.ids, created_at = excluded.created_at
 WHERE r.created_at <= ($5::bigint[])[1]
RETURNING key

-- name: find_request
SELECT digest, ids
  FROM fairway.request
 WHERE key = $1::text

-- name: save_request
UPDATE fairway.request
   SET ids = $2::bytea
 WHERE key = $1::text

-- name: find_taken_ids
-- An id in each of these ranges that belongs to a job already. Ids are drawn at random, so two makers may meet. LIMIT
-- keeps each look apart: joined, it would be a walk through the whole table, to be compared with the ranges. And it tells
-- the planner that little is looked for, else it guesses that a range has a 200th of all jobs.
WITH range AS (
  SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS range (first, last)
)
SELECT taken.id
  FROM range
 CROSS JOIN LATERAL (SELECT id FROM fairway.job WHERE id BETWEEN range.first AND range.last LIMIT 1) AS taken
UNION ALL
SELECT taken.id
  FROM range
 CROSS JOIN LATERAL (SELECT id FROM fairway.ended WHERE id BETWEEN range.first AND range.last LIMIT 1) AS taken

-- name: find_known_ids
SELECT id FROM fairway.job WHERE id = ANY($1::bigint[])
UNION ALL
SELECT id FROM fairway.ended WHERE id = ANY($1::bigint[])

-- name: find_claim
SELECT job
  FROM fairway.claim
 WHERE scope = $1::text AND key = $2::text AND NOT (over AND until <= $3::bigint)

-- name: claim_key
-- Returns the keys that were free. Those of others are left alone: a lock on one would make its job's end wait for
-- our transaction. A key that somebody is claiming just now is waited for.
INSERT INTO fairway.claim (scope, key, job, until)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT (scope, key) DO NOTHING
RETURNING scope, key, job

-- name: find_claims
-- Who has these keys, and whether each is free to be taken: its job has ended, and its time is over.
SELECT c.scope, c.key, c.job, coalesce(c.over AND c.until <= wanted.now, false)
  FROM unnest($1::text[], $2::text[], $3::bigint[]) AS wanted (scope, key, now)
  JOIN fairway.claim AS c ON c.scope = wanted.scope AND c.key = wanted.key

-- name: lock_claims
-- The same, for those who take the keys whoever has them. One after the other: each sees what the one before did.
SELECT c.scope, c.key, c.job, c.over
  FROM unnest($1::text[], $2::text[]) AS wanted (scope, key)
  JOIN fairway.claim AS c ON c.scope = wanted.scope AND c.key = wanted.key
 ORDER BY c.scope, c.key
   FOR UPDATE OF c

-- name: move_claims
-- Gives the keys of jobs that live to newer ones.
UPDATE fairway.claim AS c
   SET job = one.job, until = one.until
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS one (scope, key, job, until)
 WHERE c.scope = one.scope AND c.key = one.key AND NOT c.over

-- name: free_old_keys
-- Deletes claims of jobs that have ended, if their time is over. They are never updated: one who waits for a row that
-- is updated gets a lock on what it became, be it the claim of a job that lives.
WITH old AS MATERIALIZED (
  SELECT c.scope, c.key
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS wanted (scope, key, now)
    JOIN fairway.claim AS c ON c.scope = wanted.scope AND c.key = wanted.key
   WHERE c.over AND c.until <= wanted.now
   ORDER BY c.scope, c.key
     FOR UPDATE OF c
)
DELETE FROM fairway.claim AS c
 USING old
 WHERE c.scope = old.scope AND c.key = old.key AND c.over

-- name: insert_job
INSERT INTO fairway.job (
  id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, rules, unique_key, payload
)
SELECT id, queue, flow, priority, adapter, task, tags, once, run_at, run_at, created_at, rules, unique_key, payload
  FROM unnest(
         $1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::boolean[],
         $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bytea[]
       ) AS new (
         id, queue, flow, priority, adapter, task, tags, once, run_at, created_at, rules, unique_key, payload
       )

-- name: save_extras
-- What few jobs have, apart, so that the others pay nothing for it.
UPDATE fairway.job AS j
   SET extras = one.extras, state = one.state
  FROM unnest($1::bigint[], $2::text[], $3::smallint[]) AS one (id, extras, state)
 WHERE j.id = one.id

-- name: arrive
-- Tells the leader of jobs, and wakes it if it sleeps.
WITH arrivals AS (
  INSERT INTO fairway.arrival (jobs, concurrency) VALUES ($1::bigint[], $2::integer[])
)
SELECT pg_notify('fairway_' || split_part('fairway.', '.', 1), '')
  FROM fairway.beat
 WHERE asleep

-- name: insert_arriving
-- Inserts jobs, tells the leader of them, and wakes it if it sleeps (at the end of the transaction: a
-- notification takes a lock that is one for the whole database, so a leader that is awake is left alone).
WITH new AS (
  SELECT *
    FROM unnest(
           $1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::boolean[],
           $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bytea[], $14::integer[]
         ) AS new (
           id, queue, flow, priority, adapter, task, tags, once, run_at, created_at, rules, unique_key, payload,
           concurrency
         )
), jobs AS (
  INSERT INTO fairway.job (
    id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, rules, unique_key, payload
  )
  SELECT id, queue, flow, priority, adapter, task, tags, once, run_at, run_at, created_at, rules, unique_key, payload
    FROM new
), arrivals AS (
  INSERT INTO fairway.arrival (jobs, concurrency)
  SELECT array_agg(id), CASE WHEN count(concurrency) > 0 THEN array_agg(concurrency) END
    FROM new
  HAVING count(*) > 0
)
SELECT pg_notify('fairway_' || split_part('fairway.', '.', 1), '')
  FROM fairway.beat
 WHERE asleep

-- name: submit_at_once
-- One submission of a few jobs without unique keys, in one statement: whole, or not at all if an id is taken
-- or the request was made before. Says whether it was done; rings for the leader.
WITH taken AS (
  SELECT 1 FROM fairway.job WHERE id BETWEEN $15::bigint AND $16::bigint
  UNION ALL
  SELECT 1 FROM fairway.ended WHERE id BETWEEN $15::bigint AND $16::bigint
), reserved AS (
  INSERT INTO fairway.request (key, digest, ids, created_at)
  SELECT $17::text, $18::bytea, $19::bytea, $20::bigint
   WHERE $17::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM taken)
  ON CONFLICT DO NOTHING
  RETURNING key
), go AS MATERIALIZED (
  SELECT 1
   WHERE NOT EXISTS (SELECT 1 FROM taken) AND ($17::text IS NULL OR EXISTS (SELECT 1 FROM reserved))
), new AS (
  SELECT new.*
    FROM go
   CROSS JOIN unnest(
           $1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::boolean[],
           $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bytea[], $14::integer[]
         ) AS new (
           id, queue, flow, priority, adapter, task, tags, once, run_at, created_at, rules, unique_key, payload,
           concurrency
         )
), jobs AS (
  INSERT INTO fairway.job (
    id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, rules, unique_key, payload
  )
  SELECT id, queue, flow, priority, adapter, task, tags, once, run_at, run_at, created_at, rules, unique_key, payload
    FROM new
), arrivals AS (
  INSERT INTO fairway.arrival (jobs, concurrency)
  SELECT array_agg(id), CASE WHEN count(concurrency) > 0 THEN array_agg(concurrency) END
    FROM new
  HAVING count(*) > 0
)
SELECT CASE WHEN beat.asleep THEN pg_notify('fairway_' || split_part('fairway.', '.', 1), '')::text END
  FROM go
 CROSS JOIN fairway.beat

-- name: submit_one
-- The same for one job of a request: by its values, which takes a sixth less time than by arrays of one. To a leader
-- that listens it says $19 of the job, if that is not null.
WITH reserved AS (
  INSERT INTO fairway.request (key, digest, ids, created_at)
  SELECT $15::text, $16::bytea, $17::bytea, $18::bigint
   WHERE NOT EXISTS (SELECT 1 FROM fairway.job WHERE id = $1::bigint)
     AND NOT EXISTS (SELECT 1 FROM fairway.ended WHERE id = $1::bigint)
  ON CONFLICT DO NOTHING
  RETURNING key
), jobs AS (
  INSERT INTO fairway.job (
    id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, rules, unique_key, payload
  )
  SELECT $1::bigint, $2::text, $3::text, $4::integer, $5::text, $6::text, $7::text, $8::boolean, $9::bigint, $9::bigint,
         $10::bigint, $11::bytea, $12::text, $13::bytea
    FROM reserved
), arrivals AS (
  INSERT INTO fairway.arrival (jobs, concurrency)
  SELECT ARRAY[$1::bigint], CASE WHEN $14::integer IS NOT NULL THEN ARRAY[$14::integer] END
    FROM reserved
  RETURNING xid, number
)
SELECT CASE WHEN NOT beat.asleep THEN NULL
            WHEN beat.channel IS NULL THEN pg_notify('fairway_' || split_part('fairway.', '.', 1), '')::text
            ELSE pg_notify(beat.channel, coalesce('1 ' || xid || ' ' || number || ' ' || $19::text, ''))::text END
  FROM arrivals
 CROSS JOIN fairway.beat

-- === commit ===

-- name: begin_at_once
-- Submissions of a few jobs without unique keys, of which the leader begins some at once: fenced, with the news of it, and
-- without arrivals. Returns a row if it was done; none if the term is over, an id is taken or a request was made before.
-- Fails if somebody makes one of the requests at this very moment.
WITH fence AS MATERIALIZED (
  SELECT 1 FROM fairway.leader WHERE term = $28::bigint AND holder = $29::text FOR SHARE
), range AS (
  SELECT * FROM unnest($17::bigint[], $18::bigint[]) AS range (first, last)
), go AS MATERIALIZED (
  SELECT 1
    FROM fence
   WHERE NOT EXISTS (
           SELECT 1
             FROM range
            CROSS JOIN LATERAL (SELECT id FROM fairway.job WHERE id BETWEEN range.first AND range.last LIMIT 1) AS taken
         )
     AND NOT EXISTS (
           SELECT 1
             FROM range
            CROSS JOIN LATERAL (SELECT id FROM fairway.ended WHERE id BETWEEN range.first AND range.last LIMIT 1) AS taken
         )
     AND NOT EXISTS (SELECT 1 FROM fairway.request WHERE key = ANY($19::text[]))
), requests AS (
  INSERT INTO fairway.request (key, digest, ids, created_at)
  SELECT new.key, new.digest, new.ids, $22::bigint
    FROM go
   CROSS JOIN unnest($19::text[], $20::bytea[], $21::bytea[]) AS new (key, digest, ids)
), jobs AS (
  INSERT INTO fairway.job (
    id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, rules, unique_key, payload,
    state, attempt, incarnation, worker, started_at
  )
  SELECT id, queue, flow, priority, adapter, task, tags, once, run_at, run_at, created_at, rules, unique_key, payload,
         (started_at IS NOT NULL)::int, (started_at IS NOT NULL)::int, incarnation, worker, started_at
    FROM go
   CROSS JOIN unnest(
           $1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::boolean[],
           $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bytea[], $14::text[], $15::text[], $16::bigint[]
         ) AS new (
           id, queue, flow, priority, adapter, task, tags, once, run_at, created_at, rules, unique_key, payload,
           incarnation, worker, started_at
         )
), begun AS (
  INSERT INTO fairway.begun (number, jobs)
  SELECT $24::bigint, $23::bigint[]
    FROM go
   WHERE $24::bigint IS NOT NULL
), event AS (
  INSERT INTO fairway.event (number, at, written, body)
  SELECT $25::bigint, $22::bigint, $26::bigint, $27::bytea FROM go
)
SELECT 1 FROM go

-- name: begin_first_at_once
-- Begins a few jobs that nobody began before: fenced, with the news of it, and the arrivals it took in deleted.
-- Returns what the attempts need; no row if the term is over or one of the jobs is not as expected.
WITH fence AS MATERIALIZED (
  SELECT 1 FROM fairway.leader WHERE term = $11::bigint AND holder = $12::text FOR SHARE
), go AS MATERIALIZED (
  SELECT 1
    FROM fence
   WHERE cardinality($1::bigint[]) = (
           SELECT count(*) FROM fairway.job WHERE id = ANY($1::bigint[]) AND state = 0 AND attempt = 0
         )
), begun AS (
  INSERT INTO fairway.begun (number, jobs) SELECT $5::bigint, $1::bigint[] FROM go
), event AS (
  INSERT INTO fairway.event (number, at, written, body)
  SELECT $6::bigint, $7::bigint, $8::bigint, $9::bytea FROM go
), taken AS (
  DELETE FROM fairway.arrival WHERE number = ANY($10::bigint[]) AND EXISTS (SELECT 1 FROM go)
)
UPDATE fairway.job AS j
   SET state = 1, attempt = 1, incarnation = b.incarnation, worker = b.worker, started_at = b.started_at
  FROM go
 CROSS JOIN unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS b (id, incarnation, worker, started_at)
 WHERE j.id = b.id AND j.state = 0 AND j.attempt = 0
RETURNING j.id, j.attempt, j.generation, j.tries, j.crashes, j.losses, j.rules, j.unique_key, j.payload

-- name: begin_first
-- The same for one job.
WITH fence AS MATERIALIZED (
  SELECT 1 FROM fairway.leader WHERE term = $11::bigint AND holder = $12::text FOR SHARE
), first AS (
  UPDATE fairway.job AS j
     SET state = 1, attempt = 1, incarnation = $2::text, worker = $3::text, started_at = $4::bigint
    FROM fence
   WHERE j.id = $1::bigint AND j.state = 0 AND j.attempt = 0
  RETURNING j.id, j.attempt, j.generation, j.tries, j.crashes, j.losses, j.rules, j.unique_key, j.payload
), begun AS (
  INSERT INTO fairway.begun (number, jobs) SELECT $5::bigint, ARRAY[id] FROM first
), event AS (
  INSERT INTO fairway.event (number, at, written, body)
  SELECT $6::bigint, $7::bigint, $8::bigint, $9::bytea FROM first
), taken AS (
  DELETE FROM fairway.arrival WHERE number = ANY($10::bigint[]) AND EXISTS (SELECT 1 FROM first)
)
SELECT * FROM first

-- name: check_term
-- SHARE, not KEY SHARE: an election must wait for this transaction, and this one find out that it is over.
SELECT 1
  FROM fairway.leader
 WHERE term = $1::bigint AND holder = $2::text
   FOR SHARE

-- name: end_jobs
-- Moves finished jobs out of the hot table. $2 says to which of a few groups, given by the arrays behind it, a job
-- belongs. Touches nothing if another attempt took over: said as a CASE, since a planner that guesses how few rows run
-- would go through all of them instead of looking up each.
WITH gone AS (
  DELETE FROM fairway.job AS j
   USING unnest($1::text::bigint[], $2::text::integer[]) AS e (id, number)
    JOIN unnest(
           $3::integer[], $4::text[], $5::smallint[], $6::bytea[], $7::bigint[], $8::integer[], $9::integer[],
           $10::bigint[]
         ) WITH ORDINALITY AS g (attempt, incarnation, state, outcome, ended_at, tries, crashes, started_at, number)
      ON g.number = e.number
   WHERE j.id = e.id
     AND CASE WHEN j.attempt = g.attempt AND j.incarnation = g.incarnation AND j.state = 1 THEN true ELSE false END
  RETURNING j.id, g.state, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.run_at, j.place,
            j.created_at, j.attempt, g.tries, g.crashes, NULL::bytea, j.generation, j.incarnation, j.worker,
            coalesce(g.started_at, j.started_at), g.ended_at, j.rules, j.unique_key, g.outcome, j.payload, j.extras
)
INSERT INTO fairway.ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries, crashes,
  losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras
)
SELECT * FROM gone

-- name: end_each
-- The same for jobs that have little in common: a row of the arrays is a job.
WITH gone AS (
  DELETE FROM fairway.job AS j
   USING unnest(
           $1::text::bigint[], $2::integer[], $3::text[], $4::smallint[], $5::bytea[], $6::bigint[], $7::integer[],
           $8::integer[], $9::bigint[]
         ) AS g (id, attempt, incarnation, state, outcome, ended_at, tries, crashes, started_at)
   WHERE j.id = g.id
     AND CASE WHEN j.attempt = g.attempt AND j.incarnation = g.incarnation AND j.state = 1 THEN true ELSE false END
  RETURNING j.id, g.state, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.run_at, j.place,
            j.created_at, j.attempt, g.tries, g.crashes, NULL::bytea, j.generation, j.incarnation, j.worker,
            coalesce(g.started_at, j.started_at), g.ended_at, j.rules, j.unique_key, g.outcome, j.payload, j.extras
)
INSERT INTO fairway.ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries, crashes,
  losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras
)
SELECT * FROM gone

-- name: end_failed
-- The same for those that failed, with their causes.
WITH gone AS (
  DELETE FROM fairway.job AS j
   USING unnest(
           $1::text::bigint[], $2::integer[], $3::text[], $4::smallint[], $5::bytea[], $6::bigint[], $7::integer[],
           $8::integer[], $9::bigint[], $10::text[]
         ) AS g (id, attempt, incarnation, state, outcome, ended_at, tries, crashes, started_at, cause)
   WHERE j.id = g.id
     AND CASE WHEN j.attempt = g.attempt AND j.incarnation = g.incarnation AND j.state = 1 THEN true ELSE false END
  RETURNING j.id, g.state, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.run_at, j.place,
            j.created_at, j.attempt, g.tries, g.crashes, NULL::bytea, j.generation, j.incarnation, j.worker,
            coalesce(g.started_at, j.started_at), g.ended_at, j.rules, j.unique_key, g.outcome, j.payload, j.extras,
            g.cause
)
INSERT INTO fairway.ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries, crashes,
  losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras, cause
)
SELECT * FROM gone

-- name: end_run
-- The same for jobs with ids that follow each other, to which all the same happens.
WITH gone AS (
  DELETE FROM fairway.job AS j
   WHERE j.id BETWEEN $1::bigint AND $2::bigint AND j.attempt = $3::integer AND j.incarnation = $4::text AND j.state = 1
  RETURNING j.id, $5::smallint, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.run_at, j.place,
            j.created_at, j.attempt, $8::integer, $9::integer, NULL::bytea, j.generation, j.incarnation, j.worker,
            coalesce($10::bigint, j.started_at), $7::bigint, j.rules, j.unique_key, $6::bytea, j.payload, j.extras
)
INSERT INTO fairway.ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries, crashes,
  losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras
)
SELECT * FROM gone

-- name: free_key
-- Jobs have ended: their keys are free, but for those that are taken for longer.
DELETE FROM fairway.claim AS c
 USING unnest($1::text[], $2::text[], $3::bigint[]) AS one (scope, key, job)
 WHERE c.scope = one.scope AND c.key = one.key AND c.job = one.job AND (c.until IS NULL OR c.until <= $4::bigint)

-- name: keep_key
UPDATE fairway.claim AS c
   SET over = true
  FROM unnest($1::text[], $2::text[], $3::bigint[]) AS one (scope, key, job)
 WHERE c.scope = one.scope AND c.key = one.key AND c.job = one.job

-- name: give_key_up
-- A job leaves the queue, and its key with it, if it still has that.
DELETE FROM fairway.claim
 WHERE scope = $1::text AND key = $2::text AND job = $3::bigint

-- name: clear_key
-- Makes room for a claim of this job: its own, and one that is over and past.
DELETE FROM fairway.claim
 WHERE scope = $1::text AND key = $2::text AND (job = $3::bigint OR over AND until <= $4::bigint)

-- name: drop_jobs
-- Waiting jobs that never begin again, with the keys they held, but for those that are taken for longer.
WITH gone AS (
  DELETE FROM fairway.job AS j
   USING unnest($1::bigint[], $2::smallint[], $3::bytea[], $4::bigint[], $5::text[]) AS e (id, state, outcome, ended_at, cause)
   WHERE j.id = e.id AND j.state IN (0, 6)
  RETURNING j.id, e.state, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.run_at, j.place,
            j.created_at, j.attempt, j.tries, j.crashes, j.losses, j.generation, j.incarnation, j.worker,
            j.started_at, e.ended_at, j.rules, j.unique_key, e.outcome, j.payload, j.extras, e.cause
), freed AS (
  DELETE FROM fairway.claim AS c
   USING gone
   WHERE c.scope = gone.queue AND c.key = gone.unique_key AND c.job = gone.id
     AND (c.until IS NULL OR c.until <= gone.ended_at)
), kept AS (
  UPDATE fairway.claim AS c
     SET over = true
    FROM gone
   WHERE c.scope = gone.queue AND c.key = gone.unique_key AND c.job = gone.id AND c.until > gone.ended_at
)
INSERT INTO fairway.ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries, crashes,
  losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras, cause
)
SELECT * FROM gone

-- name: find_keys
-- The unique keys of jobs that go to another queue.
SELECT id, queue, unique_key, created_at, extras
  FROM fairway.job
 WHERE id = ANY($1::bigint[]) AND unique_key IS NOT NULL AND queue <> $2::text
 ORDER BY queue, unique_key

-- name: drop_key
UPDATE fairway.job SET unique_key = NULL WHERE id = $1::bigint

-- name: move_jobs
UPDATE fairway.job SET queue = $2::text WHERE id = ANY($1::bigint[])

-- name: recall_jobs
-- A running attempt shall come back: where its job will wait then, and for whom.
UPDATE fairway.job AS j
   SET place = one.place, extras = one.extras
  FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[], $5::text[])
         AS one (id, attempt, incarnation, place, extras)
 WHERE j.id = one.id AND j.attempt = one.attempt AND j.incarnation = one.incarnation AND j.state = 1

-- name: return_jobs
UPDATE fairway.job AS j
   SET state = 0, cancelling = false, place = back.place, run_at = back.run_at, tries = back.tries,
       crashes = back.crashes, losses = back.losses, outcome = back.outcome
  FROM unnest(
         $1::bigint[], $2::integer[], $3::text[], $4::bigint[], $5::bigint[], $6::integer[], $7::integer[],
         $8::bytea[], $9::bytea[]
       ) AS back (id, attempt, incarnation, place, run_at, tries, crashes, losses, outcome)
 WHERE j.id = back.id AND j.attempt = back.attempt AND j.incarnation = back.incarnation AND j.state = 1

-- name: find_waiting
SELECT queue, unique_key, created_at, extras
  FROM fairway.job
 WHERE id = $1::bigint AND state IN (0, 6)

-- name: edit_job
UPDATE fairway.job
   SET queue = $2::text, flow = $3::text, priority = $4::integer, tags = $5::text, run_at = $6::bigint,
       place = $7::bigint, rules = $8::bytea, unique_key = $9::text, extras = $10::text,
       adapter = coalesce($11::text, adapter)
 WHERE id = $1::bigint

-- name: unblock_jobs
UPDATE fairway.job AS j
   SET state = 0, place = one.place
  FROM unnest($1::bigint[], $2::bigint[]) AS one (id, place)
 WHERE j.id = one.id AND j.state = 6

-- name: find_ended_key
SELECT queue, unique_key, created_at, extras
  FROM fairway.ended
 WHERE id = $1::bigint

-- name: revive_job
-- The attempt number goes on: it is the fence. Everything else that was counted starts again, without a deadline.
WITH back AS (
  DELETE FROM fairway.ended WHERE id = $1::bigint RETURNING *
)
INSERT INTO fairway.job (
  id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, generation, rules,
  unique_key, payload, extras
)
SELECT id, queue, flow, priority, adapter, task, tags, once, $3::bigint, $2::bigint, created_at, attempt,
       generation + 1, rules, unique_key, payload, (extras::jsonb - 'deadline')::text
  FROM back

-- name: resolve_job
UPDATE fairway.ended
   SET state = $4::smallint, outcome = $5::bytea, ended_at = $6::bigint,
       cause = CASE WHEN $4::smallint = 2 THEN NULL ELSE cause END
 WHERE id = $1::bigint AND state = 5
   AND ($2::integer = 0 OR attempt = $2::integer AND incarnation = $3::text)

-- name: flag_jobs
UPDATE fairway.job AS j
   SET cancelling = true
  FROM unnest($1::bigint[], $2::integer[], $3::text[]) AS one (id, attempt, incarnation)
 WHERE j.id = one.id AND j.attempt = one.attempt AND j.incarnation = one.incarnation AND j.state = 1

-- name: begin_jobs
-- $2 says for which of a few workers, given by the arrays behind it, a job begins. Returns what the attempts need.
UPDATE fairway.job AS j
   SET state = 1, attempt = j.attempt + 1, incarnation = w.incarnation, worker = w.worker,
       started_at = w.started_at
  FROM unnest($1::text::bigint[], $2::text::integer[]) AS b (id, number)
  JOIN unnest($3::text[], $4::text[], $5::bigint[]) WITH ORDINALITY AS w (incarnation, worker, started_at, number)
    ON w.number = b.number
 WHERE j.id = b.id AND CASE WHEN j.state = 0 THEN true ELSE false END
RETURNING j.id, j.attempt, j.generation, j.tries, j.crashes, j.losses, j.rules, j.unique_key, j.payload

-- name: begin_each
-- The same for many workers: a row of the arrays is a job.
UPDATE fairway.job AS j
   SET state = 1, attempt = j.attempt + 1, incarnation = w.incarnation, worker = w.worker,
       started_at = w.started_at
  FROM unnest($1::text::bigint[], $2::text[], $3::text[], $4::bigint[]) AS w (id, incarnation, worker, started_at)
 WHERE j.id = w.id AND CASE WHEN j.state = 0 THEN true ELSE false END
RETURNING j.id, j.attempt, j.generation, j.tries, j.crashes, j.losses, j.rules, j.unique_key, j.payload

-- name: begin_run
-- The same for jobs with ids that follow each other.
UPDATE fairway.job AS j
   SET state = 1, attempt = j.attempt + 1, incarnation = $3::text, worker = $4::text, started_at = $5::bigint
 WHERE j.id BETWEEN $1::bigint AND $2::bigint AND j.state = 0
RETURNING j.id, j.attempt, j.generation, j.tries, j.crashes, j.losses, j.rules, j.unique_key, j.payload

-- name: save_begun
INSERT INTO fairway.begun (number, jobs) VALUES ($1::bigint, $2::bigint[])

-- name: delete_begun
DELETE FROM fairway.begun WHERE number = ANY($1::bigint[])

-- name: read_begun
SELECT number, jobs
  FROM fairway.begun
 ORDER BY number

-- name: still_running
SELECT id FROM fairway.job WHERE id = ANY($1::bigint[]) AND state = 1

-- name: save_queue
INSERT INTO fairway.queue (path, settings, created_at)
VALUES ($1::text, $2::bytea, $3::bigint)
ON CONFLICT (path) DO UPDATE SET settings = excluded.settings

-- name: delete_queue
DELETE FROM fairway.queue WHERE path = $1::text

-- name: save_changes
INSERT INTO fairway.queue_change (path, at, who, old, new)
SELECT path, at, who, old, new
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bytea[])
       WITH ORDINALITY AS one (path, at, who, old, new, place)
 ORDER BY place

-- name: delete_arrivals
DELETE FROM fairway.arrival WHERE number = ANY($1::bigint[])

-- name: save_causes
-- Returns those that are new. In the order of their ids, so that two writers lock rows in one order.
INSERT INTO fairway.cause AS c (id, task, type, message, frame, first_at, last_at, failures)
SELECT id, task, type, message, frame, at, at, failures
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
       AS one (id, task, type, message, frame, at, failures)
 ORDER BY id
ON CONFLICT (id) DO UPDATE
   SET last_at = greatest(c.last_at, excluded.last_at), failures = c.failures + excluded.failures
RETURNING id, xmax = 0

-- name: save_deliveries
INSERT INTO fairway.delivery (job, url, host, body, due_at, made_at)
SELECT job, url, host, body, made_at, made_at
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::bigint[])
       AS one (job, url, host, body, made_at)

-- name: last_event
-- The newest row is never tidied away, so the numbers go on.
SELECT coalesce(max(number), 0), coalesce(max(written), 0)
  FROM (SELECT number, written FROM fairway.event ORDER BY number DESC LIMIT 1) AS last

-- name: save_events
INSERT INTO fairway.event (number, at, written, body)
VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bytea)

-- === read ===

-- name: find_jobs
-- Hot and ended in one statement: a job that moves between two reads would be seen by neither.
SELECT id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
       crashes, losses, generation, cancelling, incarnation, worker, started_at, ended_at, rules, unique_key, outcome,
       payload, extras, NULL::text AS cause
  FROM fairway.job
 WHERE id = ANY($1::bigint[])
UNION ALL
SELECT id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
       crashes, losses, generation, cancelling, incarnation, worker, started_at, ended_at, rules, unique_key, outcome,
       payload, extras, cause
  FROM fairway.ended
 WHERE id = ANY($1::bigint[])

-- name: first_arrivals
-- All that is there, for a new leader: submissions of about so many jobs.
SELECT now.snapshot::text, a.number, j.id, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.place,
       e.concurrency, j.extras, j.state
  FROM (SELECT pg_current_snapshot() AS snapshot) AS now
  LEFT JOIN (
         SELECT *, sum(cardinality(jobs)) OVER (ORDER BY number) - cardinality(jobs) AS before
           FROM (
                  SELECT *
                    FROM fairway.arrival
                   WHERE EXISTS (SELECT 1 FROM fairway.job WHERE id = ANY(jobs) AND state IN (0, 6))
                   ORDER BY number
                   LIMIT $1::bigint
                ) AS first
       ) AS a ON a.before < $1::bigint
  LEFT JOIN LATERAL unnest(a.jobs, a.concurrency) WITH ORDINALITY AS e (job, concurrency, place) ON true
  LEFT JOIN fairway.job AS j ON j.id = e.job AND j.state IN (0, 6)
 ORDER BY a.number, e.place

-- name: next_arrivals
-- What was committed since the given snapshot: by transactions that it had not seen begin, or not seen end.
SELECT now.snapshot::text, a.number, j.id, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.place,
       e.concurrency, j.extras, j.state
  FROM (SELECT pg_current_snapshot() AS snapshot) AS now
  LEFT JOIN (
         SELECT *, sum(cardinality(jobs)) OVER (ORDER BY number) - cardinality(jobs) AS before
           FROM (
                  SELECT *
                    FROM fairway.arrival
                   WHERE (xid >= pg_snapshot_xmax($2::text::pg_snapshot)
                          OR xid = ANY(ARRAY(SELECT pg_snapshot_xip($2::text::pg_snapshot))))
                     AND EXISTS (SELECT 1 FROM fairway.job WHERE id = ANY(jobs) AND state IN (0, 6))
                   ORDER BY number
                   LIMIT $1::bigint
                ) AS first
       ) AS a ON a.before < $1::bigint
  LEFT JOIN LATERAL unnest(a.jobs, a.concurrency) WITH ORDINALITY AS e (job, concurrency, place) ON true
  LEFT JOIN fairway.job AS j ON j.id = e.job AND j.state IN (0, 6)
 ORDER BY a.number, e.place

-- name: few_arrivals
-- The same, in any order and in half the time, as long as it is little: $2 - 1 submissions of as many jobs. One more
-- of either says that it is not.
SELECT pg_current_snapshot()::text, a.number, j.id, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once,
       j.place, a.concurrency[e.place], j.extras, j.state, e.place
  FROM (
         SELECT number, jobs, concurrency
           FROM fairway.arrival
          WHERE xid >= pg_snapshot_xmax($1::text::pg_snapshot)
             OR xid = ANY(ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))
          LIMIT $2::integer
       ) AS a
 CROSS JOIN LATERAL unnest(a.jobs[1:$2::integer]) WITH ORDINALITY AS e (job, place)
  LEFT JOIN fairway.job AS j ON j.id = e.job AND j.state IN (0, 6)

-- name: waiting_jobs
-- Jobs that are alike come as one row: to read a row for each was most of what a new leader did. The ids of a row
-- come in any order: to sort them here took longer than all the rest.
SELECT queue, flow, priority, adapter, task, tags, once, extras, state, array_agg(id), array_agg(place)
  FROM (
    SELECT id, queue, flow, priority, adapter, task, tags, once, place, extras, state
      FROM fairway.job
     WHERE id > $1::bigint AND state IN (0, 6)
     ORDER BY id
     LIMIT $2::bigint
  ) AS page
 GROUP BY queue, flow, priority, adapter, task, tags, once, extras, state

-- name: last_of_page
-- Where a look at so many jobs ends.
SELECT max(id)
  FROM (SELECT id FROM fairway.job WHERE id > $1::bigint ORDER BY id LIMIT $2::bigint) AS page

-- name: waiting_below
SELECT 0, id, queue, flow, priority, adapter, task, tags, once, place, NULL, extras, state
  FROM fairway.job
 WHERE id > $1::bigint AND id <= $2::bigint AND state IN (0, 6)
   AND (queue = $3::text OR starts_with(queue, $3::text || '/'))
 ORDER BY id

-- name: ended_states
-- In one statement: a job that moves between two reads would be seen by neither.
SELECT id, state FROM fairway.job WHERE id = ANY($1::bigint[])
UNION ALL
SELECT id, state FROM fairway.ended WHERE id = ANY($1::bigint[])

-- name: find_replaced
-- Those of the jobs that wait or run although their key has gone to a newer one.
SELECT 0, id, queue, flow, priority, adapter, task, tags, once, place, NULL, extras, state
  FROM fairway.job AS j
 WHERE id = ANY($1::bigint[]) AND unique_key IS NOT NULL
   AND NOT EXISTS (
         SELECT 1 FROM fairway.claim AS c WHERE c.scope = j.queue AND c.key = j.unique_key AND c.job = j.id
       )

-- name: live_attempts
SELECT id, attempt, generation, tries, crashes, losses, rules, unique_key, payload, queue, flow, priority, adapter,
       task, tags, once, place, incarnation, worker, started_at, cancelling, extras
  FROM fairway.job
 WHERE id = ANY(ARRAY(SELECT unnest(jobs) FROM fairway.begun)) AND state = 1

-- name: begun_again
SELECT id, attempt, generation, tries, crashes, losses, rules, unique_key, payload
  FROM fairway.job
 WHERE id = ANY($1::bigint[]) AND state = 1

-- name: events_from
SELECT number, body
  FROM fairway.event
 WHERE number >= $1::bigint
 ORDER BY number
 LIMIT $2::bigint

-- name: event_span
SELECT coalesce((SELECT min(number) FROM fairway.event), 0), coalesce((SELECT max(number) FROM fairway.event), 0)

-- name: queue_rows
SELECT path, settings
  FROM fairway.queue
 ORDER BY path

-- name: queue_changes
SELECT number, path, at, who, old, new
  FROM fairway.queue_change
 WHERE number < $2::bigint AND ($1::text IS NULL OR path = $1::text)
 ORDER BY number DESC
 LIMIT $3::bigint

-- name: find_queues
SELECT path, settings
  FROM fairway.queue
 WHERE path = ANY($1::text[])

-- name: schedule_rows
SELECT name, revision, spec, progress, created_at, changed_at
  FROM fairway.schedule
 ORDER BY name

-- name: find_schedule
SELECT name, revision, spec, progress, created_at, changed_at
  FROM fairway.schedule
 WHERE name = $1::text

-- name: add_schedule
INSERT INTO fairway.schedule (name, revision, spec, progress, created_at, changed_at)
VALUES ($1::text, $2::bigint, $3::bytea, $4::bytea, $5::bigint, $6::bigint)
ON CONFLICT (name) DO NOTHING

-- name: change_schedule
-- Touches nothing if somebody changed it since it was read.
UPDATE fairway.schedule
   SET revision = $2::bigint, spec = $3::bytea, progress = $4::bytea, created_at = $5::bigint, changed_at = $6::bigint
 WHERE name = $1::text AND revision = $7::bigint

-- name: drop_schedule
DELETE FROM fairway.schedule WHERE name = $1::text AND revision = $2::bigint

-- name: causes
SELECT id, task, type, message, frame, first_at, last_at, failures, muted_until
  FROM fairway.cause
 WHERE (last_at, id COLLATE "C") < ($1::bigint, $2::text COLLATE "C")
 ORDER BY last_at DESC, id COLLATE "C" DESC
 LIMIT $3::bigint

-- name: find_cause
SELECT id, task, type, message, frame, first_at, last_at, failures, muted_until
  FROM fairway.cause
 WHERE id = $1::text

-- name: mute_cause
UPDATE fairway.cause SET muted_until = $2::bigint WHERE id = $1::text RETURNING id

-- name: forget_cause
WITH old AS (
  DELETE FROM fairway.ended
   WHERE id IN (SELECT id FROM fairway.ended WHERE cause IS NOT NULL AND cause = $1::text LIMIT $2::bigint)
  RETURNING id
), lines AS (
  DELETE FROM fairway.log USING old WHERE log.job = old.id
), notes AS (
  DELETE FROM fairway.note USING old WHERE note.job = old.id
)
SELECT count(*) FROM old

-- name: delete_cause
DELETE FROM fairway.cause
 WHERE id = $1::text AND NOT EXISTS (SELECT 1 FROM fairway.ended WHERE cause IS NOT NULL AND cause = $1::text)

-- name: due_calls
SELECT number, job, url, host, body, tries, due_at, made_at
  FROM fairway.delivery
 WHERE due_at <= $1::bigint AND host <> ALL($3::text[])
 ORDER BY due_at, number
 LIMIT $2::bigint

-- name: next_call
SELECT min(due_at) FROM fairway.delivery

-- name: delete_calls
DELETE FROM fairway.delivery WHERE number = ANY($1::bigint[])

-- name: put_calls_off
UPDATE fairway.delivery
   SET due_at = $3::bigint
 WHERE host = $1::text AND due_at <= $2::bigint

-- name: retry_calls
UPDATE fairway.delivery AS d
   SET tries = one.tries, due_at = one.due_at
  FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS one (number, tries, due_at)
 WHERE d.number = one.number

-- name: add_log
-- A worker that was not thanked sends its output again: the second copy is the same.
INSERT INTO fairway.log (job, attempt, number, at, stream, text)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
ON CONFLICT DO NOTHING

-- name: read_log
SELECT job, attempt, number, at, stream, text
  FROM fairway.log
 WHERE job = $1::bigint
   AND attempt = coalesce($2::integer, (SELECT max(attempt) FROM fairway.log WHERE job = $1::bigint))
   AND number > $3::bigint
 ORDER BY number
 LIMIT $4::bigint

-- name: save_notes
-- Fenced: only of a job's last attempt, under its incarnation. It may just have ended.
WITH told AS (
  SELECT *
    FROM unnest(
           $1::bigint[], $2::integer[], $3::text[], $4::double precision[], $5::text[], $6::bytea[],
           $7::double precision[], $8::bigint[]
         ) AS one (job, attempt, incarnation, progress, text, checkpoint, cpu_seconds, memory_bytes)
), own AS (
  SELECT told.* FROM told JOIN fairway.job AS j ON j.id = told.job
   WHERE j.attempt = told.attempt AND j.incarnation = told.incarnation
  UNION ALL
  SELECT told.* FROM told JOIN fairway.ended AS e ON e.id = told.job
   WHERE e.attempt = told.attempt AND e.incarnation = told.incarnation
), older AS (
  UPDATE fairway.note AS n
     SET checkpoint = NULL
    FROM own
   WHERE own.checkpoint IS NOT NULL AND n.job = own.job AND n.attempt < own.attempt AND n.checkpoint IS NOT NULL
), oldest AS (
  -- Of a job only the last attempts' notes are kept, and the checkpoint that counts, whoever left it.
  DELETE FROM fairway.note AS n
   USING own
   WHERE own.attempt > $10::integer AND n.job = own.job AND n.attempt <= own.attempt - $10::integer
     AND n.checkpoint IS NULL
)
INSERT INTO fairway.note AS n (
  job, attempt, progress, text, checkpoint, cpu_seconds, memory_bytes, at, first_progress, first_at, progress_at,
  checkpoint_at
)
SELECT job, attempt, progress, text, checkpoint, cpu_seconds, memory_bytes, $9::bigint, progress,
       CASE WHEN progress IS NOT NULL THEN $9::bigint END, CASE WHEN progress IS NOT NULL THEN $9::bigint END,
       CASE WHEN checkpoint IS NOT NULL THEN $9::bigint END
  FROM own
ON CONFLICT (job, attempt) DO UPDATE
   SET progress = coalesce(excluded.progress, n.progress),
       text = CASE WHEN excluded.progress IS NULL THEN n.text ELSE excluded.text END,
       checkpoint = coalesce(excluded.checkpoint, n.checkpoint),
       cpu_seconds = coalesce(excluded.cpu_seconds, n.cpu_seconds),
       memory_bytes = coalesce(excluded.memory_bytes, n.memory_bytes),
       at = excluded.at,
       first_progress = coalesce(n.first_progress, excluded.first_progress),
       first_at = coalesce(n.first_at, excluded.first_at),
       progress_at = coalesce(excluded.progress_at, n.progress_at),
       checkpoint_at = coalesce(excluded.checkpoint_at, n.checkpoint_at)

-- name: drop_checkpoints
-- A person tries the job again: it starts anew.
UPDATE fairway.note SET checkpoint = NULL WHERE job = $1::bigint AND checkpoint IS NOT NULL

-- name: find_notes
SELECT DISTINCT ON (job) job, attempt, progress, text, cpu_seconds, memory_bytes, first_progress, first_at,
       progress_at,
       (SELECT max(c.checkpoint_at) FROM fairway.note AS c WHERE c.job = n.job AND c.checkpoint IS NOT NULL)
  FROM fairway.note AS n
 WHERE job = ANY($1::bigint[])
 ORDER BY job, attempt DESC

-- name: attempt_notes
SELECT job, attempt, progress, text, cpu_seconds, memory_bytes, first_progress, first_at, progress_at, checkpoint_at
  FROM fairway.note
 WHERE job = $1::bigint
 ORDER BY attempt DESC
 LIMIT $2::bigint

-- name: checkpoints
SELECT job, checkpoint
  FROM fairway.note
 WHERE job = ANY($1::bigint[]) AND checkpoint IS NOT NULL
 ORDER BY job, attempt

-- === leadership ===

-- name: first_election
INSERT INTO fairway.leader (one, term, holder, name, url, elected_at)
VALUES (1, 1, $1::text, $2::text, $3::text, $4::bigint)
ON CONFLICT DO NOTHING
RETURNING term

-- name: next_election
UPDATE fairway.leader
   SET term = term + 1, holder = $2::text, name = $3::text, url = $4::text, elected_at = $5::bigint
 WHERE term = $1::bigint
RETURNING term

-- name: record_election
INSERT INTO fairway.leader_history (term, holder, name, url, elected_at)
SELECT term, holder, name, url, elected_at
  FROM fairway.leader

-- name: beat
UPDATE fairway.beat
   SET beat = beat + 1, asleep = $3::boolean, channel = $4::text
 WHERE EXISTS (SELECT 1 FROM fairway.leader WHERE term = $1::bigint AND holder = $2::text)
RETURNING beat

-- name: resign
-- Nobody listens any more: whoever leads next may be of a version that does not say where it does.
WITH resigned AS (
  UPDATE fairway.leader
     SET holder = ''
   WHERE term = $1::bigint AND holder = $2::text
  RETURNING 1
)
UPDATE fairway.beat
   SET channel = NULL
 WHERE EXISTS (SELECT 1 FROM resigned)

-- name: find_leadership
SELECT term, holder, name, url, elected_at, beat, asleep
  FROM fairway.leader, fairway.beat

-- name: leaders
SELECT term, holder, name, url, elected_at, 0, false
  FROM fairway.leader_history
 ORDER BY term DESC
 LIMIT $1::bigint

-- name: save_node
INSERT INTO fairway.node (name, incarnation, url, version, started_at, seen_at)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint)
ON CONFLICT (incarnation) DO UPDATE
   SET name = excluded.name, url = excluded.url, version = excluded.version, seen_at = excluded.seen_at

-- name: nodes
SELECT name, incarnation, url, version, started_at, seen_at
  FROM fairway.node
 ORDER BY name, started_at

-- name: forget_node
DELETE FROM fairway.node WHERE incarnation = $1::text

-- name: note_culprit
-- All others go that are too old, or more than shall be kept beside it.
WITH forgotten AS (
  DELETE FROM fairway.culprit
   WHERE digest <> $1::text
     AND (last_at <= $6::bigint
          OR digest IN (SELECT digest FROM fairway.culprit WHERE digest <> $1::text
                         ORDER BY last_at DESC, digest COLLATE "C" OFFSET $7::bigint))
)
INSERT INTO fairway.culprit (digest, what, error, job, leaders, first_at, last_at)
VALUES ($1::text, $2::text, $3::text, $4::bigint, 1, $5::bigint, $5::bigint)
ON CONFLICT (digest) DO UPDATE
   SET what = excluded.what, error = excluded.error, last_at = excluded.last_at,
       leaders = CASE WHEN culprit.last_at <= $6::bigint THEN 1 ELSE culprit.leaders + 1 END,
       first_at = CASE WHEN culprit.last_at <= $6::bigint THEN excluded.first_at ELSE culprit.first_at END

-- name: culprits
SELECT digest, what, error, job, leaders, first_at, last_at
  FROM fairway.culprit
 WHERE last_at > $1::bigint
 ORDER BY last_at DESC, digest COLLATE "C"

-- === tidy ===

-- name: tidy_ended
WITH old AS (
  DELETE FROM fairway.ended
   WHERE id IN (SELECT id FROM fairway.ended WHERE ended_at < $1::bigint LIMIT $2::bigint)
  RETURNING id
), lines AS (
  DELETE FROM fairway.log USING old WHERE log.job = old.id
), notes AS (
  DELETE FROM fairway.note USING old WHERE note.job = old.id
)
SELECT count(*) FROM old

-- name: ended_queues
SELECT DISTINCT queue
  FROM fairway.ended
 WHERE ended_at >= $1::bigint AND ended_at < $2::bigint

-- name: forget_ended
WITH old AS (
  DELETE FROM fairway.ended
   WHERE id IN (
     SELECT id
       FROM fairway.ended
      WHERE ended_at >= $1::bigint AND ended_at < $2::bigint AND queue = ANY($3::text[])
      LIMIT $4::bigint
   )
  RETURNING id
), lines AS (
  DELETE FROM fairway.log USING old WHERE log.job = old.id
), notes AS (
  DELETE FROM fairway.note USING old WHERE note.job = old.id
)
SELECT count(*) FROM old

-- name: forget_jobs
WITH old AS (
  DELETE FROM fairway.ended WHERE id = ANY($1::bigint[]) RETURNING id
), lines AS (
  DELETE FROM fairway.log USING old WHERE log.job = old.id
), notes AS (
  DELETE FROM fairway.note USING old WHERE note.job = old.id
)
SELECT id FROM old

-- name: tidy_requests
DELETE FROM fairway.request
 WHERE key IN (SELECT key FROM fairway.request WHERE created_at <= $1::bigint ORDER BY created_at LIMIT $2::bigint)

-- name: tidy_claims
-- Keys that outlived their jobs, and their time. One that is being taken just now is not waited for.
DELETE FROM fairway.claim
 WHERE (scope, key) IN (
   SELECT scope, key FROM fairway.claim WHERE over AND until <= $1::bigint LIMIT $2::bigint FOR UPDATE SKIP LOCKED
 )

-- name: first_event_since
-- Both columns rise with the number, so this reads what is too old and one row more.
SELECT number
  FROM fairway.event
 WHERE at >= $1::bigint
   AND written >= (SELECT written FROM fairway.event ORDER BY number DESC LIMIT 1) - $2::bigint
 ORDER BY number
 LIMIT 1

-- name: tidy_events
-- The newest row stays, whatever its age: the next number follows from it.
DELETE FROM fairway.event
 WHERE number IN (
   SELECT number
     FROM fairway.event
    WHERE number < least($1::bigint, (SELECT max(number) FROM fairway.event))
    ORDER BY number
    LIMIT $2::bigint
 )

-- name: tidy_arrivals
-- Arrivals of jobs that ended before the leader took them in: a job and its arrival are always seen together.
DELETE FROM fairway.arrival
 WHERE number IN (
   SELECT number
     FROM fairway.arrival
    WHERE NOT EXISTS (SELECT 1 FROM fairway.job WHERE job.id = ANY(arrival.jobs))
    LIMIT $1::bigint
 )

-- name: tidy_changes
-- The newest stay, and the last few of each queue that there is.
DELETE FROM fairway.queue_change
 WHERE number IN (
   SELECT number
     FROM fairway.queue_change AS c
    WHERE number < (SELECT number FROM fairway.queue_change ORDER BY number DESC LIMIT 1 OFFSET $1::bigint - 1)
      AND (NOT EXISTS (SELECT 1 FROM fairway.queue AS q WHERE q.path = c.path)
           OR EXISTS (
                SELECT 1
                  FROM fairway.queue_change AS n
                 WHERE n.path = c.path AND n.number > c.number
                 LIMIT 1 OFFSET $2::bigint - 1
              ))
    ORDER BY number
    LIMIT $3::bigint
 )

-- name: tidy_causes
-- Those that were not seen for long, and beyond a number those that were seen least lately.
DELETE FROM fairway.cause
 WHERE id IN (
   SELECT id
     FROM fairway.cause
    WHERE last_at < greatest(
            $1::bigint,
            coalesce((SELECT last_at FROM fairway.cause ORDER BY last_at DESC LIMIT 1 OFFSET $2::bigint - 1), 0)
          )
      AND (last_at >= $1::bigint OR coalesce(muted_until <= $3::bigint, true))
    LIMIT $4::bigint
      FOR UPDATE SKIP LOCKED
 )

-- name: tidy_nodes
DELETE FROM fairway.node WHERE seen_at < $1::bigint
