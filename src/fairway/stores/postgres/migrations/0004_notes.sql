-- What a running attempt says of itself: how far it is, where a next attempt may go on, what it has used. Only the
-- newest checkpoint of a job is kept; `first_...` is the first progress, from which a rate is counted.
CREATE TABLE fairway.note (
  job bigint NOT NULL,
  attempt integer NOT NULL,
  progress double precision,
  text text NOT NULL DEFAULT '',
  checkpoint bytea,
  cpu_seconds double precision,
  memory_bytes bigint,
  at bigint NOT NULL,
  first_progress double precision,
  first_at bigint,
  progress_at bigint,
  checkpoint_at bigint,
  PRIMARY KEY (job, attempt)
);
