-- Failures by cause: what failed alike is one row here; each ended job that failed names its cause.
CREATE TABLE fairway.cause (
  id text PRIMARY KEY,
  task text NOT NULL,
  type text NOT NULL,
  message text NOT NULL,
  frame text NOT NULL,
  first_at bigint NOT NULL,
  last_at bigint NOT NULL,
  failures bigint NOT NULL,
  muted_until bigint
);

ALTER TABLE fairway.ended ADD COLUMN cause text;
CREATE INDEX ended_by_cause ON fairway.ended (cause, id) WHERE cause IS NOT NULL;
