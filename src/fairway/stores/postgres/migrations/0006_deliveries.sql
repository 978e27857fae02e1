-- Calls that tell of a job's end: made in the commit that ends it, gone when the receiver has taken them.
CREATE TABLE fairway.delivery (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job bigint NOT NULL,
  url text NOT NULL,
  host text NOT NULL,
  body bytea NOT NULL,
  tries integer NOT NULL DEFAULT 0,
  due_at bigint NOT NULL,
  made_at bigint NOT NULL
);

CREATE INDEX delivery_due ON fairway.delivery (due_at);
