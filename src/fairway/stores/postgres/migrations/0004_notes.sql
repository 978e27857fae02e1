-- What a running attempt says of itself: how far it is, where a next attempt may go on, what it has used.
CREATE TABLE fairway.note (
  job bigint NOT NULL,
  attempt integer NOT NULL,
  progress double precision,
  text text NOT NULL DEFAULT '',
  checkpoint bytea,
  cpu_seconds double precision,
  memory_bytes bigint,
  at bigint NOT NULL,
  PRIMARY KEY (job, attempt)
);
