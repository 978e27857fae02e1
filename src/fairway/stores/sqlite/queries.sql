-- Every statement of the SQLite store but those that a search composes. Times are passed in, every write
-- about an attempt is fenced. States: 0 waiting, 1 running, 2 succeeded, 3 failed, 4 cancelled, 5 unknown, 6 blocked.
-- Those under "submit" also run on a user's own connection, so they keep to what SQLite 3.40 knows.

-- === submit ===

-- name: reserve_request
-- Returns a row to whoever asks this first.
INSERT INTO request (key, digest, ids, created_at)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (key) DO UPDATE
   SET digest = excluded.digest, ids = excluded.ids, created_at = excluded.created_at
 WHERE request.created_at <= ?5
RETURNING key

-- name: find_request
SELECT digest, ids
  FROM request
 WHERE key = ?1

-- name: save_request
UPDATE request
   SET ids = ?2
 WHERE key = ?1

-- name: find_taken_ids
-- The ids in these ranges that belong to a job already. Ids are drawn at random, so two makers may meet.
WITH range (first, last) AS (
  SELECT a.value, b.value
    FROM json_each(?1) AS a
    JOIN json_each(?2) AS b ON b.key = a.key
)
SELECT id FROM range CROSS JOIN job WHERE id BETWEEN first AND last
UNION ALL
SELECT id FROM range CROSS JOIN ended WHERE id BETWEEN first AND last

-- name: find_known_ids
SELECT id FROM job WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL
SELECT id FROM ended WHERE id IN (SELECT value FROM json_each(?1))

-- name: find_claim
SELECT job
  FROM claim
 WHERE scope = ?1 AND key = ?2 AND NOT coalesce(over AND until <= ?3, 0)

-- name: claim_key
-- Returns the key if it was free.
INSERT INTO claim (scope, key, job, until)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (scope, key) DO NOTHING
RETURNING scope, key, job

-- name: find_claims
-- Who has this key, and whether it is free to be taken: its job has ended, and its time is over.
SELECT scope, key, job, coalesce(over AND until <= ?3, 0)
  FROM claim
 WHERE scope = ?1 AND key = ?2

-- name: lock_claims
-- Who has this key, for those who take it whoever has it.
SELECT scope, key, job, over
  FROM claim
 WHERE scope = ?1 AND key = ?2

-- name: move_claims
-- Gives the key of a job that lives to a newer one.
UPDATE claim
   SET job = ?3, until = ?4
 WHERE scope = ?1 AND key = ?2 AND NOT over

-- name: free_old_keys
DELETE FROM claim
 WHERE scope = ?1 AND key = ?2 AND over AND until <= ?3

-- name: insert_job
INSERT INTO job (
  id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, rules, unique_key, payload
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?13)

-- name: save_extras
-- What few jobs have, apart, so that the others pay nothing for it.
UPDATE job SET extras = ?2, state = ?3 WHERE id = ?1

-- name: insert_arrival
INSERT INTO arrival (job, concurrency) VALUES (?1, ?2)

-- === commit ===

-- name: check_term
SELECT 1
  FROM leader
 WHERE term = ?1 AND holder = ?2

-- name: end_jobs
-- Copies finished jobs that have all but their id in common out of the hot table. Touches nothing if another
-- attempt took over. One step for a whole group: a thousand steps hold and release Python's lock a thousand times.
-- Lost workers are counted in the crashes by now.
INSERT INTO ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
  crashes, losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras
)
SELECT job.id, ?4, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, live.attempt, ?7,
       ?8, NULL, generation, live.incarnation, live.worker, coalesce(?9, live.started_at), ?6, rules, unique_key,
       ?5, payload, extras
  FROM carray(?1) AS over
 CROSS JOIN live ON live.id = over.value
 CROSS JOIN job ON job.id = over.value
 WHERE live.attempt = ?2 AND live.incarnation = ?3

-- name: end_failed
-- The same for those that failed, with their cause.
INSERT INTO ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
  crashes, losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras, cause
)
SELECT job.id, ?4, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, live.attempt, ?7,
       ?8, NULL, generation, live.incarnation, live.worker, coalesce(?9, live.started_at), ?6, rules, unique_key,
       ?5, payload, extras, ?10
  FROM carray(?1) AS over
 CROSS JOIN live ON live.id = over.value
 CROSS JOIN job ON job.id = over.value
 WHERE live.attempt = ?2 AND live.incarnation = ?3

-- name: drop_jobs
INSERT INTO ended (
  id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
  crashes, losses, generation, incarnation, worker, started_at, ended_at, rules, unique_key, outcome, payload,
  extras, cause
)
SELECT id, ?2, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
       crashes, losses, generation, incarnation, worker, started_at, ?4, rules, unique_key, ?3, payload,
       extras, ?5
  FROM job
 WHERE id = ?1 AND state IN (0, 6) AND id NOT IN (SELECT id FROM live)

-- name: find_keys
-- The unique keys of jobs that go to another queue.
SELECT id, queue, unique_key, created_at, extras
  FROM job
 WHERE id IN carray(?1) AND unique_key IS NOT NULL AND queue <> ?2

-- name: drop_key
UPDATE job SET unique_key = NULL WHERE id = ?1

-- name: move_jobs
UPDATE job SET queue = ?2 WHERE id IN carray(?1)

-- name: delete_jobs
DELETE FROM job WHERE id IN carray(?1)

-- name: delete_live
DELETE FROM live WHERE id IN carray(?1)

-- name: free_key
-- A job has ended: its key is free, unless it is taken for longer.
DELETE FROM claim
 WHERE scope = ?1 AND key = ?2 AND job = ?3 AND coalesce(until <= ?4, 1)

-- name: keep_key
UPDATE claim
   SET over = 1
 WHERE scope = ?1 AND key = ?2 AND job = ?3

-- name: give_key_up
-- A job leaves the queue, and its key with it, if it still has that.
DELETE FROM claim
 WHERE scope = ?1 AND key = ?2 AND job = ?3
RETURNING job

-- name: clear_key
-- Makes room for a claim of this job: its own, and one that is over and past.
DELETE FROM claim
 WHERE scope = ?1 AND key = ?2 AND (job = ?3 OR over AND until <= ?4)

-- name: key_of_job
SELECT queue, unique_key, id
  FROM job
 WHERE id = ?1 AND unique_key IS NOT NULL

-- name: recall_jobs
-- A running attempt shall come back: where its job will wait then, and for whom.
UPDATE job
   SET place = ?4, extras = ?5
 WHERE id = ?1 AND EXISTS (SELECT 1 FROM live WHERE id = ?1 AND attempt = ?2 AND incarnation = ?3)

-- name: return_jobs
UPDATE job
   SET attempt = live.attempt, incarnation = live.incarnation, worker = live.worker, started_at = live.started_at,
       place = ?4, run_at = ?5, tries = ?6, crashes = ?7, losses = ?8, outcome = ?9
  FROM live
 WHERE job.id = ?1 AND live.id = ?1 AND live.attempt = ?2 AND live.incarnation = ?3

-- name: find_waiting
SELECT queue, unique_key, created_at, extras
  FROM job
 WHERE id = ?1 AND state IN (0, 6) AND id NOT IN (SELECT id FROM live)

-- name: edit_job
UPDATE job
   SET queue = ?2, flow = ?3, priority = ?4, tags = ?5, run_at = ?6, place = ?7, rules = ?8,
       unique_key = ?9, extras = ?10, adapter = coalesce(?11, adapter)
 WHERE id = ?1

-- name: unblock_jobs
UPDATE job
   SET state = 0, place = ?2
 WHERE id = ?1 AND state = 6

-- name: find_ended_key
SELECT queue, unique_key, created_at, extras
  FROM ended
 WHERE id = ?1

-- name: revive_job
-- The attempt number goes on: it is the fence. Everything else that was counted starts again, without a deadline.
INSERT INTO job (
  id, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, generation,
  rules, unique_key, payload, extras
)
SELECT id, queue, flow, priority, adapter, task, tags, once, ?3, ?2, created_at, attempt, generation + 1,
       rules, unique_key, payload, json_remove(extras, '$.deadline')
  FROM ended
 WHERE id = ?1

-- name: delete_ended
DELETE FROM ended WHERE id = ?1

-- name: resolve_job
UPDATE ended
   SET state = ?4, outcome = ?5, ended_at = ?6, cause = iif(?4 = 2, NULL, cause)
 WHERE id = ?1 AND state = 5 AND (?2 = 0 OR attempt = ?2 AND incarnation = ?3)

-- name: flag_jobs
UPDATE live
   SET cancelling = 1
 WHERE id = ?1 AND attempt = ?2 AND incarnation = ?3

-- name: read_begun
-- The array is walked as it is: IN would copy it into a tree of its own first.
SELECT id, attempt + 1, generation, tries, crashes, losses, rules, unique_key, payload
  FROM carray(?1) AS wanted
 CROSS JOIN job ON job.id = wanted.value
 WHERE state = 0

-- name: begin_jobs
-- One that runs already is left alone: that shows in the count.
INSERT OR IGNORE INTO live (id, attempt, incarnation, worker, started_at)
SELECT value, ?2, ?3, ?4, ?5
  FROM carray(?1)

-- name: save_queue
INSERT INTO queue (path, settings, created_at)
VALUES (?1, ?2, ?3)
ON CONFLICT (path) DO UPDATE SET settings = excluded.settings

-- name: delete_queue
DELETE FROM queue WHERE path = ?1

-- name: save_change
INSERT INTO queue_change (path, at, who, old, new)
VALUES (?1, ?2, ?3, ?4, ?5)

-- name: delete_arrival
DELETE FROM arrival WHERE number = ?1

-- name: known_causes
SELECT id FROM cause WHERE id IN (SELECT value FROM json_each(?1))

-- name: save_cause
INSERT INTO cause (id, task, type, message, frame, first_at, last_at, failures)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)
ON CONFLICT (id) DO UPDATE
   SET last_at = max(last_at, excluded.last_at), failures = failures + excluded.failures

-- name: save_delivery
INSERT INTO delivery (job, url, host, body, due_at, made_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)

-- name: save_events
INSERT INTO event (at, written, body)
VALUES (
  ?1,
  length(?2) + coalesce((SELECT written FROM event ORDER BY number DESC LIMIT 1), 0),
  ?2
)
RETURNING number

-- === read ===

-- name: find_jobs
-- Hot and ended in one statement: a job that moves between two reads would be seen by neither.
SELECT id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
       crashes, losses, generation, cancelling, incarnation, worker, started_at, NULL AS ended_at, rules,
       unique_key, outcome, payload, extras, NULL AS cause
  FROM hot
 WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL
SELECT id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,
       crashes, losses, generation, 0 AS cancelling, incarnation, worker, started_at, ended_at, rules,
       unique_key, outcome, payload, extras, cause
  FROM ended
 WHERE id IN (SELECT value FROM json_each(?1))

-- name: take_arrivals
SELECT a.number, j.id, j.queue, j.flow, j.priority, j.adapter, j.task, j.tags, j.once, j.place,
       a.concurrency, j.extras, j.state
  FROM arrival AS a
  JOIN job AS j ON j.id = a.job
 WHERE a.number > ?1 AND j.state IN (0, 6) AND j.id NOT IN (SELECT id FROM live)
 ORDER BY a.number
 LIMIT ?2

-- name: waiting_jobs
SELECT id, place, queue, flow, priority, adapter, task, tags, once, extras, state
  FROM job
 WHERE id > ?1 AND state IN (0, 6) AND id NOT IN (SELECT id FROM live)
 ORDER BY id
 LIMIT ?2

-- name: last_of_page
-- Where a look at so many jobs ends.
SELECT max(id)
  FROM (SELECT id FROM job WHERE id > ?1 ORDER BY id LIMIT ?2)

-- name: waiting_below
SELECT 0, id, queue, flow, priority, adapter, task, tags, once, place, NULL, extras, state
  FROM job
 WHERE id > ?1 AND id <= ?2 AND state IN (0, 6) AND id NOT IN (SELECT id FROM live)
   AND (queue = ?3 OR queue > ?3 || '/' AND queue < ?3 || '0')
 ORDER BY id

-- name: ended_states
-- In one statement: a job that moves between two reads would be seen by neither.
SELECT id, state FROM job WHERE id IN (SELECT value FROM json_each(?1))
UNION ALL
SELECT id, state FROM ended WHERE id IN (SELECT value FROM json_each(?1))

-- name: find_replaced
-- Those of the jobs that wait or run although their key has gone to a newer one.
SELECT 0, id, queue, flow, priority, adapter, task, tags, once, place, NULL, extras, state
  FROM job AS j
 WHERE id IN (SELECT value FROM json_each(?1)) AND unique_key IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM claim AS c WHERE c.scope = j.queue AND c.key = j.unique_key AND c.job = j.id)

-- name: live_attempts
SELECT id, attempt, generation, tries, crashes, losses, rules, unique_key, payload,
       queue, flow, priority, adapter, task, tags, once, place, incarnation, worker, started_at, cancelling,
       extras
  FROM hot
 WHERE id IN (SELECT id FROM live)

-- name: begun_again
SELECT id, attempt, generation, tries, crashes, losses, rules, unique_key, payload
  FROM hot
 WHERE id IN (SELECT value FROM json_each(?1)) AND state = 1

-- name: events_from
SELECT number, body
  FROM event
 WHERE number >= ?1
 ORDER BY number

-- name: event_span
SELECT coalesce((SELECT min(number) FROM event), 0), coalesce((SELECT max(number) FROM event), 0)

-- name: queue_rows
SELECT path, settings
  FROM queue
 ORDER BY path

-- name: queue_changes
SELECT number, path, at, who, old, new
  FROM queue_change
 WHERE number < ?2 AND (?1 IS NULL OR path = ?1)
 ORDER BY number DESC
 LIMIT ?3

-- name: find_queues
-- Runs on a user's own connection, too.
SELECT path, settings
  FROM queue
 WHERE path IN (SELECT value FROM json_each(?1))

-- name: schedule_rows
SELECT name, revision, spec, progress, created_at, changed_at
  FROM schedule
 ORDER BY name

-- name: find_schedule
SELECT name, revision, spec, progress, created_at, changed_at
  FROM schedule
 WHERE name = ?1

-- name: add_schedule
INSERT INTO schedule (name, revision, spec, progress, created_at, changed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (name) DO NOTHING

-- name: change_schedule
-- Touches nothing if somebody changed it since it was read.
UPDATE schedule
   SET revision = ?2, spec = ?3, progress = ?4, created_at = ?5, changed_at = ?6
 WHERE name = ?1 AND revision = ?7

-- name: drop_schedule
DELETE FROM schedule WHERE name = ?1 AND revision = ?2

-- name: causes
SELECT id, task, type, message, frame, first_at, last_at, failures, muted_until
  FROM cause
 WHERE (last_at, id) < (?1, ?2)
 ORDER BY last_at DESC, id DESC
 LIMIT ?3

-- name: find_cause
SELECT id, task, type, message, frame, first_at, last_at, failures, muted_until
  FROM cause
 WHERE id = ?1

-- name: mute_cause
UPDATE cause SET muted_until = ?2 WHERE id = ?1

-- name: ended_of_cause
SELECT id
  FROM ended
 WHERE cause IS NOT NULL AND cause = ?1
 LIMIT ?2

-- name: delete_cause
DELETE FROM cause WHERE id = ?1

-- name: due_calls
SELECT number, job, url, host, body, tries, due_at, made_at
  FROM delivery
 WHERE due_at <= ?1 AND host NOT IN (SELECT value FROM json_each(?3))
 ORDER BY due_at, number
 LIMIT ?2

-- name: next_call
SELECT min(due_at) FROM delivery

-- name: delete_call
DELETE FROM delivery WHERE number = ?1

-- name: retry_call
UPDATE delivery
   SET tries = ?2, due_at = ?3
 WHERE number = ?1

-- name: put_calls_off
UPDATE delivery
   SET due_at = ?3
 WHERE host = ?1 AND due_at <= ?2

-- name: add_log
-- A worker that was not thanked sends its output again: the second copy is the same.
INSERT OR IGNORE INTO log (job, attempt, number, at, stream, text)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: read_log
SELECT job, attempt, number, at, stream, text
  FROM log
 WHERE job = ?1
   AND attempt = coalesce(?2, (SELECT max(attempt) FROM log WHERE job = ?1))
   AND number > ?3
 ORDER BY number
 LIMIT ?4

-- name: save_note
-- Fenced: only of a job's last attempt, under its incarnation. It may just have ended.
INSERT INTO note (
  job, attempt, progress, text, checkpoint, cpu_seconds, memory_bytes, at, first_progress, first_at, progress_at,
  checkpoint_at
)
SELECT ?1, ?2, ?4, ?5, ?6, ?7, ?8, ?9, ?4, iif(?4 IS NULL, NULL, ?9), iif(?4 IS NULL, NULL, ?9),
       iif(?6 IS NULL, NULL, ?9)
 WHERE EXISTS (SELECT 1 FROM hot WHERE id = ?1 AND attempt = ?2 AND incarnation = ?3)
    OR EXISTS (SELECT 1 FROM ended WHERE id = ?1 AND attempt = ?2 AND incarnation = ?3)
ON CONFLICT (job, attempt) DO UPDATE
   SET text = iif(excluded.progress IS NULL, text, excluded.text),
       progress = coalesce(excluded.progress, progress),
       checkpoint = coalesce(excluded.checkpoint, checkpoint),
       cpu_seconds = coalesce(excluded.cpu_seconds, cpu_seconds),
       memory_bytes = coalesce(excluded.memory_bytes, memory_bytes),
       at = excluded.at,
       first_progress = coalesce(first_progress, excluded.first_progress),
       first_at = coalesce(first_at, excluded.first_at),
       progress_at = coalesce(excluded.progress_at, progress_at),
       checkpoint_at = coalesce(excluded.checkpoint_at, checkpoint_at)

-- name: drop_older_checkpoints
UPDATE note
   SET checkpoint = NULL
 WHERE job = ?1 AND checkpoint IS NOT NULL
   AND attempt < (SELECT max(attempt) FROM note WHERE job = ?1 AND checkpoint IS NOT NULL)

-- name: drop_older_notes
-- Of a job only the last attempts' notes are kept, and the checkpoint that counts, whoever left it.
DELETE FROM note
 WHERE job = ?1 AND checkpoint IS NULL
   AND attempt <= (SELECT max(attempt) FROM note WHERE job = ?1) - ?2

-- name: drop_checkpoints
-- A person tries the job again: it starts anew.
UPDATE note SET checkpoint = NULL WHERE job = ?1 AND checkpoint IS NOT NULL

-- name: find_notes
SELECT job, attempt, progress, text, cpu_seconds, memory_bytes, first_progress, first_at, progress_at,
       (SELECT max(c.checkpoint_at) FROM note AS c WHERE c.job = note.job AND c.checkpoint IS NOT NULL)
  FROM note
 WHERE job IN (SELECT value FROM json_each(?1))
   AND attempt = (SELECT max(attempt) FROM note AS l WHERE l.job = note.job)

-- name: attempt_notes
SELECT job, attempt, progress, text, cpu_seconds, memory_bytes, first_progress, first_at, progress_at, checkpoint_at
  FROM note
 WHERE job = ?1
 ORDER BY attempt DESC
 LIMIT ?2

-- name: checkpoints
SELECT job, checkpoint
  FROM note
 WHERE job IN (SELECT value FROM json_each(?1)) AND checkpoint IS NOT NULL
 ORDER BY job, attempt

-- === leadership ===

-- name: first_election
INSERT OR IGNORE INTO leader (one, term, holder, name, url, elected_at)
VALUES (1, 1, ?1, ?2, ?3, ?4)

-- name: next_election
UPDATE leader
   SET term = term + 1, holder = ?2, name = ?3, url = ?4, elected_at = ?5
 WHERE term = ?1

-- name: record_election
INSERT INTO leader_history (term, holder, name, url, elected_at)
SELECT term, holder, name, url, elected_at
  FROM leader

-- name: beat
UPDATE beat
   SET beat = beat + 1, asleep = ?3
 WHERE EXISTS (SELECT 1 FROM leader WHERE term = ?1 AND holder = ?2)

-- name: resign
UPDATE leader
   SET holder = ''
 WHERE term = ?1 AND holder = ?2

-- name: find_leadership
SELECT term, holder, name, url, elected_at, beat, asleep
  FROM leader, beat

-- name: leaders
SELECT term, holder, name, url, elected_at, 0, 0
  FROM leader_history
 ORDER BY term DESC
 LIMIT ?1

-- name: save_node
INSERT INTO node (name, incarnation, url, version, started_at, seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (incarnation) DO UPDATE
   SET name = excluded.name, url = excluded.url, version = excluded.version, seen_at = excluded.seen_at

-- name: nodes
SELECT name, incarnation, url, version, started_at, seen_at
  FROM node
 ORDER BY name, started_at

-- name: forget_node
DELETE FROM node WHERE incarnation = ?1

-- name: forget_culprits
-- All but one that are too old, or more than shall be kept beside it.
DELETE FROM culprit
 WHERE digest <> ?1
   AND (last_at <= ?2
        OR digest IN (SELECT digest FROM culprit WHERE digest <> ?1 ORDER BY last_at DESC, digest LIMIT -1 OFFSET ?3))

-- name: note_culprit
INSERT INTO culprit (digest, what, error, job, leaders, first_at, last_at)
VALUES (?1, ?2, ?3, ?4, 1, ?5, ?5)
ON CONFLICT (digest) DO UPDATE
   SET what = excluded.what, error = excluded.error, last_at = excluded.last_at,
       leaders = CASE WHEN culprit.last_at <= ?6 THEN 1 ELSE culprit.leaders + 1 END,
       first_at = CASE WHEN culprit.last_at <= ?6 THEN excluded.first_at ELSE culprit.first_at END

-- name: culprits
SELECT digest, what, error, job, leaders, first_at, last_at
  FROM culprit
 WHERE last_at > ?1
 ORDER BY last_at DESC, digest

-- === tidy ===

-- name: old_ended
SELECT id
  FROM ended
 WHERE ended_at < ?1
 ORDER BY ended_at
 LIMIT ?2

-- name: ended_queues
SELECT DISTINCT queue
  FROM ended
 WHERE ended_at >= ?1 AND ended_at < ?2

-- name: ended_of_queues
SELECT id
  FROM ended
 WHERE ended_at >= ?1 AND ended_at < ?2 AND queue IN (SELECT value FROM json_each(?3))
 LIMIT ?4

-- name: ended_among
SELECT id FROM ended WHERE id IN (SELECT value FROM json_each(?1))

-- name: delete_log
DELETE FROM log WHERE job = ?1

-- name: delete_notes
DELETE FROM note WHERE job = ?1

-- name: tidy_requests
DELETE FROM request
 WHERE key IN (SELECT key FROM request WHERE created_at <= ?1 ORDER BY created_at LIMIT ?2)

-- name: tidy_claims
-- Keys that outlived their jobs, and their time.
DELETE FROM claim
 WHERE (scope, key) IN (SELECT scope, key FROM claim WHERE over AND until <= ?1 LIMIT ?2)

-- name: first_event_since
-- Both columns rise with the number, so this reads what is too old and one row more.
SELECT number
  FROM event
 WHERE at >= ?1 AND written >= (SELECT written FROM event ORDER BY number DESC LIMIT 1) - ?2
 ORDER BY number
 LIMIT 1

-- name: tidy_events
DELETE FROM event
 WHERE number IN (SELECT number FROM event WHERE number < ?1 ORDER BY number LIMIT ?2)

-- name: tidy_arrivals
-- Arrivals of jobs that ended before the leader took them in.
DELETE FROM arrival
 WHERE number IN (
   SELECT number
     FROM arrival
    WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.id = arrival.job)
    LIMIT ?1
 )

-- name: tidy_changes
-- The newest stay, and the last few of each queue that there is.
DELETE FROM queue_change
 WHERE number IN (
   SELECT number
     FROM queue_change AS c
    WHERE number < (SELECT number FROM queue_change ORDER BY number DESC LIMIT 1 OFFSET ?1 - 1)
      AND (NOT EXISTS (SELECT 1 FROM queue WHERE queue.path = c.path)
           OR EXISTS (
                SELECT 1 FROM queue_change AS n WHERE n.path = c.path AND n.number > c.number LIMIT 1 OFFSET ?2 - 1
              ))
    ORDER BY number
    LIMIT ?3
 )

-- name: tidy_causes
-- Those that were not seen for long, and beyond a number those that were seen least lately.
DELETE FROM cause
 WHERE id IN (
   SELECT id
     FROM cause
    WHERE last_at < max(?1, coalesce((SELECT last_at FROM cause ORDER BY last_at DESC LIMIT 1 OFFSET ?2 - 1), 0))
      AND (last_at >= ?1 OR coalesce(muted_until <= ?3, 1))
    LIMIT ?4
 )

-- name: tidy_nodes
DELETE FROM node WHERE seen_at < ?1
