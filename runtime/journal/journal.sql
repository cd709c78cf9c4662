-- "check" is a keyword of SQL, hence the quotes. docs/reference/journal.md explains
-- each column.
CREATE TABLE event(
  seq INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  cause INTEGER NOT NULL,
  src TEXT NOT NULL,
  dst TEXT NOT NULL,
  type TEXT NOT NULL,
  body BLOB NOT NULL,
  "check" BLOB NOT NULL);
CREATE TABLE blob(
  hash TEXT PRIMARY KEY NOT NULL,
  size INTEGER NOT NULL,
  codec TEXT NOT NULL,
  bytes BLOB NOT NULL);
CREATE TABLE meta(
  key TEXT PRIMARY KEY NOT NULL,
  value TEXT NOT NULL) WITHOUT ROWID;
