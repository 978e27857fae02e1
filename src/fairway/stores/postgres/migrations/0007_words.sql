-- Where the leader listens for what is said to it alone; null if it cannot hear, or is of an earlier version.
ALTER TABLE fairway.beat ADD COLUMN channel text;
