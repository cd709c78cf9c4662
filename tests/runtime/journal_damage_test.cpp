// Bytes flipped, rows cut, moved and slipped in, after LevelDB's log tests.
#include "runtime/store/sha256.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

/// The error after this SQL was run on the example journal.
Result<void> verify_after(const std::string& sql) {
  Directory directory;
  write_example(directory / "j.db");
  run_sql(directory / "j.db", sql);
  // As in a copy without the file beside it, unless the test is about that.
  fs::remove(directory / "j.db-lock");
  auto verified = open_and_verify(directory / "j.db");
  if (!verified) CHECK(verified.error().code == ErrorCode::damaged);
  return verified;
}

}  // namespace

TEST_CASE("an event changed in any column is found and named") {
  for (const char* change :
       {"at_us = at_us + 1", "cause = 0", "src = 'dispatchex'",
        "dst = dst || 'x'", "type = ''", "body = x'00'",
        "\"check\" = zeroblob(16)", "\"check\" = x''",
        "src = 'dispatcheragent/sg_3', dst = ''"}) {
    CAPTURE(change);
    const auto verified = verify_after("UPDATE event SET " +
                                       std::string(change) + " WHERE seq = 3");
    CHECK(says(verified, "event 3 is damaged"));
  }
}

TEST_CASE("bytes that stay the same under another type are found") {
  CHECK(says(
      verify_after("UPDATE event SET body = CAST(body AS TEXT) WHERE seq = 2"),
      "event 2 is damaged"));
  CHECK(says(
      verify_after("UPDATE event SET src = CAST(src AS BLOB) WHERE seq = 2"),
      "event 2 is damaged"));
  CHECK(says(verify_after("UPDATE blob SET codec = CAST(codec AS BLOB)"),
             "is damaged"));
  CHECK(says(verify_after("UPDATE meta SET value = CAST(value AS BLOB) "
                          "WHERE key = 'weft_version'"),
             "meta"));
}

TEST_CASE("two columns that swap are found") {
  CHECK(says(verify_after("UPDATE event SET src = dst, dst = src, "
                          "type = type WHERE seq = 4"),
             "event 4 is damaged"));
}

TEST_CASE("a deleted first, middle or last event is missing by name") {
  for (const char* seq : {"1", "3", "5"}) {
    CHECK(
        says(verify_after("DELETE FROM event WHERE seq = " + std::string(seq)),
             "event " + std::string(seq) + " is missing"));
  }
}

TEST_CASE("a cut tail shows although the rest is whole") {
  CHECK(says(verify_after("DELETE FROM event WHERE seq > 2"),
             "event 3 is missing: the last one is 5"));
  CHECK(says(verify_after("DELETE FROM event"), "event 1 is missing"));
}

TEST_CASE("events that change places are found") {
  CHECK(says(verify_after("UPDATE event SET seq = -2 WHERE seq = 2;"
                          "UPDATE event SET seq = 2 WHERE seq = 3;"
                          "UPDATE event SET seq = 3 WHERE seq = -2"),
             "event 2 is damaged"));
}

TEST_CASE("an event slipped in before, between or after is found") {
  const auto slip_in = [](const char* seq) {
    return verify_after("INSERT INTO event SELECT " + std::string(seq) +
                        ", at_us, cause, src, dst, type, body, \"check\" "
                        "FROM event WHERE seq = 5");
  };
  CHECK(says(slip_in("0"), "event 1 is missing"));
  CHECK(says(slip_in("-9"), "event 1 is missing"));
  CHECK(says(slip_in("6"), "event 6"));
}

TEST_CASE("reading gives the events before the damage, then names it") {
  Directory directory;
  write_example(directory / "j.db");
  run_sql(directory / "j.db", "UPDATE event SET body = x'' WHERE seq = 4");
  const auto journal = value(Journal::open_read_only(directory / "j.db"));
  int seen = 0;
  const auto done =
      journal.read(1, [&](const Envelope&) { return ++seen > 0; });
  CHECK(seen == 3);
  CHECK(says(done, "event 4 is damaged"));
  CHECK(says(read_all(journal, 3), "event 4"));
}

TEST_CASE("a writer does not go on after a tail that does not fit") {
  for (const char* sql :
       {"UPDATE event SET body = x'' WHERE seq = 5",
        "DELETE FROM event WHERE seq = 5",
        "UPDATE meta SET value = replace(value, '5 ', '4 ') WHERE key = 'head'",
        "UPDATE meta SET value = 'other' WHERE key = 'weft_version'",
        "DELETE FROM meta WHERE key = 'head'"}) {
    CAPTURE(sql);
    Directory directory;
    write_example(directory / "j.db");
    run_sql(directory / "j.db", sql);
    const auto opened = Journal::open(directory / "j.db", Sync::full);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code == ErrorCode::damaged);
  }
}

TEST_CASE("a changed, lost or added meta value is found") {
  for (const char* sql :
       {"UPDATE meta SET value = 'other' WHERE key = 'weft_version'",
        "UPDATE meta SET key = 'weft_versiom' WHERE key = 'weft_version'",
        "DELETE FROM meta WHERE key = 'weft_version'",
        "INSERT INTO meta VALUES ('a', 'b')"}) {
    CAPTURE(sql);
    CHECK(says(verify_after(sql), "a meta value was changed"));
  }
  CHECK(says(verify_after("UPDATE meta SET value = value || ' ' "
                          "WHERE key = 'head'"),
             "'head' is damaged"));
  CHECK(says(verify_after("UPDATE meta SET value = substr(value, 1, 2) || "
                          "hex(zeroblob(16)) || substr(value, 35) "
                          "WHERE key = 'head'"),
             "'head' does not fit event 5"));
  CHECK(says(verify_after("UPDATE meta SET value = 'one' "
                          "WHERE key = 'format'"),
             "'format' is damaged"));
}

TEST_CASE("a changed, lost or added blob is found") {
  for (const char* sql :
       {"UPDATE blob SET bytes = zeroblob(length(bytes))",
        "UPDATE blob SET size = 499", "UPDATE blob SET size = -1",
        "UPDATE blob SET size = 1 << 60", "UPDATE blob SET codec = 'raw'",
        "UPDATE blob SET codec = 'lzma'", "UPDATE blob SET bytes = x''",
        "UPDATE blob SET hash = upper(hash)", "DELETE FROM blob",
        "DELETE FROM blob WHERE codec = 'raw'",
        "UPDATE blob SET size = 4 WHERE codec = 'raw'",
        "INSERT INTO blob VALUES ('beef', 1, 'raw', x'00')"}) {
    CAPTURE(sql);
    CHECK(says(verify_after(sql), "blob"));
  }
}

TEST_CASE("a blob whose bytes were changed is not handed out") {
  Directory directory;
  write_example(directory / "j.db");
  run_sql(directory / "j.db",
          "UPDATE blob SET codec = 'raw', size = 1, bytes = x'00'");
  const auto journal = value(Journal::open_read_only(directory / "j.db"));
  const auto blob = journal.get_blob(content_hash(std::string(500, 'x')));
  REQUIRE_FALSE(blob.has_value());
  CHECK(blob.error().code == ErrorCode::damaged);
}

TEST_CASE("a newer or forgotten format is refused, saying what to do") {
  for (const auto& [format, advice] :
       {std::pair{"99", "update weft"}, {"0", "the weft that wrote it"}}) {
    Directory directory;
    write_example(directory / "j.db");
    run_sql(directory / "j.db",
            "UPDATE meta SET value = " + std::string(format) +
                " WHERE key = 'format'");
    const auto opened = Journal::open(directory / "j.db", Sync::full);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code == ErrorCode::wrong_input);
    CHECK(opened.error().message.find(advice) != std::string::npos);
  }
}

TEST_CASE("what is no SQLite file, or another program's, is damaged") {
  Directory directory;
  store(directory / "text.db", std::string(5000, 'x'));
  store(directory / "empty.db", "");
  run_sql(directory / "other.db", "CREATE TABLE cats(name)");
  for (const char* name : {"text.db", "empty.db", "other.db"}) {
    CAPTURE(name);
    const auto opened = Journal::open(directory / name, Sync::full);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code == ErrorCode::damaged);
    CHECK(opened.error().message.find("never a journal") != std::string::npos);
    CHECK_FALSE(Journal::open_read_only(directory / name).has_value());
  }
}

TEST_CASE("a flipped byte anywhere in the file is found or held nothing") {
  Directory directory;
  write_example(directory / "j.db");
  const std::string whole = load(directory / "j.db");
  const auto events =
      value(read_all(value(Journal::open_read_only(directory / "j.db"))));
  int found = 0;
  // A prime step keeps the suite quick and comes to every kind of location.
  for (std::size_t at = 0; at < whole.size(); at += 13) {
    CAPTURE(at);
    const auto file = directory / "flipped.db";
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    store(file, flipped);
    if (!open_and_verify(file)) {
      ++found;
    } else {
      const auto journal = value(Journal::open_read_only(file));
      CHECK(value(read_all(journal)) == events);
      CHECK(journal.meta("weft_version") == "0.1.0");
    }
    fs::remove(directory / "flipped.db-wal");
    fs::remove(directory / "flipped.db-shm");
  }
  CHECK(found > 50);
}

TEST_CASE("every byte of an event's body is covered") {
  Directory directory;
  write_example(directory / "j.db");
  const std::string whole = load(directory / "j.db");
  const auto at = whole.find("body 3");
  REQUIRE(at != std::string::npos);
  for (std::size_t i = 0; i < 8; ++i) {
    std::string flipped = whole;
    flipped[at + i] = static_cast<char>(flipped[at + i] ^ 1);
    store(directory / "j.db", flipped);
    CHECK(says(open_and_verify(directory / "j.db"), "event 3 is damaged"));
  }
}

TEST_CASE("an index that lost a blob is found though the blob is there") {
  Directory directory;
  write_example(directory / "j.db");
  const auto hash = content_hash("raw");
  auto bytes = load(directory / "j.db");
  const auto first = bytes.find(hash);
  const auto second = bytes.find(hash, first + 1);
  REQUIRE(second != std::string::npos);
  // One is the table's, the other the index's: in either, they disagree.
  bytes[second] ^= 1;
  store(directory / "j.db", bytes);
  CHECK_FALSE(open_and_verify(directory / "j.db").has_value());
  bytes[second] ^= 1;
  bytes[first] ^= 1;
  store(directory / "j.db", bytes);
  CHECK_FALSE(open_and_verify(directory / "j.db").has_value());
}

TEST_CASE("a file cut at any page is damaged, not a crash") {
  Directory directory;
  write_example(directory / "j.db");
  const std::string whole = load(directory / "j.db");
  for (std::size_t size = 100; size < whole.size(); size += 1999) {
    CAPTURE(size);
    store(directory / "cut.db", whole.substr(0, size));
    const auto verified = open_and_verify(directory / "cut.db");
    REQUIRE_FALSE(verified.has_value());
    CHECK(verified.error().code == ErrorCode::damaged);
    fs::remove(directory / "cut.db-wal");
    fs::remove(directory / "cut.db-shm");
  }
}

}  // namespace weft
