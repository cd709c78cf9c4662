CREATE TABLE IF NOT EXISTS pattern(
  key TEXT PRIMARY KEY,
  type TEXT, inputs TEXT, device TEXT, platform TEXT, features TEXT,
  idea TEXT, change TEXT, is_whole INTEGER,
  over_eager REAL, over_others REAL, gain REAL,
  kept_us INTEGER, used_us INTEGER, bytes INTEGER);
CREATE INDEX IF NOT EXISTS pattern_use ON pattern(used_us, bytes);
