-- What few jobs have (a deadline, jobs they wait for, a group...) as JSON, NULL for all others; state 6: blocked.
ALTER TABLE fairway.job ADD COLUMN extras text;
ALTER TABLE fairway.ended ADD COLUMN extras text;

-- A key may outlive its job: until this time. `over`: the job has ended.
ALTER TABLE fairway.claim ADD COLUMN until bigint;
ALTER TABLE fairway.claim ADD COLUMN over boolean NOT NULL DEFAULT false;
CREATE INDEX claim_over ON fairway.claim (until) WHERE over;

-- Every change of a queue's settings: who, when, and both values. NULL: there was, or is, no row.
CREATE TABLE fairway.queue_change (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  path text NOT NULL,
  at bigint NOT NULL,
  who text NOT NULL,
  old bytea,
  new bytea
);

CREATE INDEX queue_change_by_path ON fairway.queue_change (path, number);
