-- Calls, and stored jobs that were to be taken in, on which leaders ended by an error of their own.
CREATE TABLE fairway.culprit (
  digest text PRIMARY KEY,
  what text NOT NULL,
  error text NOT NULL,
  job bigint,
  leaders integer NOT NULL,
  first_at bigint NOT NULL,
  last_at bigint NOT NULL
);
