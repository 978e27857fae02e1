-- Where the leader listens for what is said to it alone; null if it cannot hear, or nobody leads. A leader of an earlier
-- version leaves what it finds: who says something there is found a second later.
ALTER TABLE fairway.beat ADD COLUMN channel text;
