BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS kernel(
  key TEXT PRIMARY KEY,
  signature TEXT, wanted TEXT, device TEXT, policy TEXT, format INTEGER,
  source TEXT, target TEXT, variant TEXT, origin TEXT,
  median_us REAL, p10_us REAL, p90_us REAL, runs INTEGER,
  over_eager REAL, over_eager_low REAL, over_eager_high REAL,
  over_compile REAL, over_compile_low REAL, over_compile_high REAL,
  floor_share REAL, outdone TEXT,
  kept_us INTEGER, used_us INTEGER, uses INTEGER, bytes INTEGER);
CREATE INDEX IF NOT EXISTS kernel_use ON kernel(used_us, bytes);
CREATE TABLE IF NOT EXISTS made(
  key TEXT PRIMARY KEY, content BLOB, "check" TEXT,
  used_us INTEGER, bytes INTEGER);
CREATE INDEX IF NOT EXISTS made_use ON made(used_us, bytes);
PRAGMA user_version = 1;
COMMIT;
