#include "runtime/journal/journal.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "runtime/store/sha256.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {

TEST_CASE("what was appended is read back, numbered from 1") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::full));
  auto group = envelopes(1, 3);
  value(journal.append(group));
  CHECK(group[0].seq == 1);
  CHECK(group[2].seq == 3);
  CHECK(journal.last_seq() == 3);
  CHECK(value(read_all(journal)) == group);
}

TEST_CASE("an empty journal has no events and is in order") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::normal));
  CHECK(journal.last_seq() == 0);
  CHECK(value(read_all(journal)).empty());
  value(journal.verify());
}

TEST_CASE("empty texts and extreme numbers survive") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::normal));
  std::vector<Envelope> group(2);
  group[0].at_us = INT64_MIN;
  group[1].at_us = INT64_MAX;
  group[1].cause = UINT64_MAX;
  value(journal.append(group));
  CHECK(value(read_all(journal)) == group);
}

TEST_CASE("a journal opened again goes on where it ended") {
  Directory directory;
  write_example(directory / "j.db");
  auto journal = value(Journal::open(directory / "j.db", Sync::full));
  CHECK(journal.last_seq() == 5);
  auto group = envelopes(6, 7);
  value(journal.append(group));
  CHECK(value(read_all(journal)) == [] {
    auto all = envelopes(1, 7);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].seq = i + 1;
    return all;
  }());
  value(journal.verify());
}

TEST_CASE("reading starts at any event and stops when told to") {
  Directory directory;
  write_example(directory / "j.db");
  const auto journal = value(Journal::open_read_only(directory / "j.db"));
  const auto tail = value(read_all(journal, 4));
  REQUIRE(tail.size() == 2);
  CHECK(tail[0].seq == 4);
  CHECK(value(read_all(journal, 6)).empty());
  CHECK(value(read_all(journal, 600)).empty());
  int seen = 0;
  value(journal.read(1, [&](const Envelope&) { return ++seen < 2; }));
  CHECK(seen == 2);
}

TEST_CASE("a reader sees what is committed while the writer runs") {
  Directory directory;
  auto writer = value(Journal::create(directory / "j.db", Sync::normal));
  auto group = envelopes(1, 2);
  value(writer.append(group));
  const auto reader = value(Journal::open_read_only(directory / "j.db"));
  int seen = 0;
  value(reader.read(1, [&](const Envelope&) {
    if (++seen == 1) {
      auto more = envelopes(3, 4);
      value(writer.append(more));
      CHECK(value(read_all(reader)).size() == 2);
    }
    return true;
  }));
  CHECK(seen == 2);
  CHECK(reader.last_seq() == 4);
  CHECK(value(read_all(reader)).size() == 4);
  value(reader.verify());
}

TEST_CASE("a read may look up blobs and read again, but not write") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::normal));
  const auto hash = value(journal.put_blob("prompt"));
  auto group = envelopes(1, 1);
  value(journal.append(group));
  value(journal.read(1, [&](const Envelope&) {
    CHECK(value(journal.get_blob(hash)) == "prompt");
    CHECK(value(read_all(journal)).size() == 1);
    auto more = envelopes(2, 2);
    CHECK(says(journal.append(more), "from inside a read()"));
    return true;
  }));
  CHECK(journal.last_seq() == 1);
}

TEST_CASE("a reader can't write") {
  Directory directory;
  write_example(directory / "j.db");
  auto journal = value(Journal::open_read_only(directory / "j.db"));
  auto group = envelopes(6, 6);
  CHECK(says(journal.append(group), "opened to read only"));
  CHECK(says(journal.set_meta("a", "b"), "opened to read only"));
  CHECK_FALSE(journal.put_blob("text").has_value());
}

TEST_CASE("a second writer is refused at once, and told which file and who") {
  Directory directory;
  const auto journal = value(Journal::create(directory / "j.db", Sync::full));
  const auto second = Journal::open(directory / "j.db", Sync::full);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::wrong_input);
  CHECK(second.error().message.find((directory / "j.db").string() +
                                    " is in use by process " +
                                    std::to_string(::getpid())) == 0);
}

TEST_CASE("creating over a journal is refused and leaves it whole") {
  Directory directory;
  write_example(directory / "j.db");
  const auto again = Journal::create(directory / "j.db", Sync::full);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == ErrorCode::wrong_input);
  value(open_and_verify(directory / "j.db"));
}

TEST_CASE("a journal can be made anew after the old one was deleted") {
  Directory directory;
  write_example(directory / "j.db");
  fs::remove(directory / "j.db");
  auto journal = value(Journal::create(directory / "j.db", Sync::full));
  value(journal.verify());
}

TEST_CASE("a missing file, a directory and a missing directory are named") {
  Directory directory;
  const auto missing = directory / "none.db";
  fs::create_directory(directory / "folder");
  for (const auto& file : {missing, directory / "folder"}) {
    const auto reader = Journal::open_read_only(file);
    CHECK(says(reader, file.string() + ": there is no such journal"));
    const auto writer = Journal::open(file, Sync::full);
    CHECK(says(writer, file.string() + ": there is no such journal"));
    CHECK(writer.error().code == ErrorCode::wrong_input);
  }
  CHECK_FALSE(fs::exists(missing));
  const auto result = Journal::create(directory / "no/such/j.db", Sync::full);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::wrong_input);
}

TEST_CASE("a blob is stored once, small where it compresses, under its hash") {
  Directory directory;
  const std::string text(100'000, 'a');
  std::string hash;
  {
    auto journal = value(Journal::create(directory / "j.db", Sync::normal));
    hash = value(journal.put_blob(text));
    CHECK(value(journal.put_blob(text)) == hash);
    CHECK(value(journal.get_blob(hash)) == text);
    std::vector<Envelope> none;
    value(journal.append(none));
    CHECK(value(journal.put_blob(text)) == hash);
    value(journal.append(none));
    value(journal.verify());
  }
  CHECK(hash == content_hash(text));
  CHECK(fs::file_size(directory / "j.db") < 50'000);
  const auto journal = value(Journal::open_read_only(directory / "j.db"));
  CHECK(value(journal.get_blob(hash)) == text);
}

TEST_CASE("an empty blob and one that does not compress come back") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::normal));
  std::vector<Envelope> none;
  for (const std::string& bytes : {std::string(), std::string("\0\1\2", 3)}) {
    const auto hash = value(journal.put_blob(bytes));
    value(journal.append(none));
    CHECK(value(journal.get_blob(hash)) == bytes);
  }
  value(journal.verify());
}

TEST_CASE("a message or a blob that is too large is refused, with advice") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::normal));
  auto group = envelopes(1, 2);
  group[1].body.resize((64 << 20) + 1);
  CHECK(says(journal.append(group), "put its large parts into blobs"));
  CHECK(group[0].seq == 0);
  CHECK(journal.last_seq() == 0);
  // The size is looked at first, so the bytes need not be there.
  CHECK(says(journal.put_blob({"", (std::size_t{512} << 20) + 1}),
             "too large for the journal"));
  value(journal.verify());
}

TEST_CASE("a journal in a directory that can't be written to is readable") {
  Directory directory;
  fs::create_directory(directory / "run?#%");
  const auto file = directory / "run?#%" / "j.db";
  write_example(file);
  fs::permissions(directory / "", fs::perms(0555));
  fs::permissions(directory / "run?#%", fs::perms(0555));
  const pid_t reader = ::fork();
  REQUIRE(reader >= 0);
  if (reader == 0) {
    // To root every directory can be written to, so be somebody else.
    constexpr uid_t kNobody = 65534;
    if (::getuid() == 0 && ::setuid(kNobody) != 0) ::_exit(2);
    ::_exit(open_and_verify(file) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(reader, &status, 0);
  fs::permissions(directory / "", fs::perms(0755));
  fs::permissions(directory / "run?#%", fs::perms(0755));
  CHECK(status == 0);
  CHECK_FALSE(fs::exists(file.string() + "-wal"));
}

TEST_CASE("content_hash is SHA-256") {
  // FIPS 180-2, appendix B.1.
  CHECK(content_hash("abc") ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a blob that is not there is named") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::normal));
  const auto blob = journal.get_blob("beef");
  REQUIRE_FALSE(blob.has_value());
  CHECK(blob.error().message.find("blob beef") != std::string::npos);
}

TEST_CASE("meta values are kept, replaced, and can't be the journal's own") {
  Directory directory;
  {
    auto journal = value(Journal::create(directory / "j.db", Sync::full));
    value(journal.set_meta("version", "0.1.0"));
    value(journal.set_meta("version", "0.2.0"));
    CHECK(says(journal.set_meta("head", "x"), "journal's own"));
    CHECK(says(journal.set_meta("format", "x"), "journal's own"));
    value(journal.verify());
  }
  const auto journal = value(Journal::open(directory / "j.db", Sync::full));
  CHECK(journal.meta("version") == "0.2.0");
  CHECK(journal.meta("nothing") == std::nullopt);
}

TEST_CASE(
    "any SQLite tool reads the events as docs/reference/journal.md says") {
  Directory directory;
  write_example(directory / "j.db");
  run_sql(directory / "j.db",
          "CREATE TEMP TABLE expected(n CHECK (n = 5));"
          "INSERT INTO expected SELECT count(*) FROM event "
          "WHERE src = 'dispatcher' AND dst = 'agent/sg_' || seq "
          "AND type = 'VerifyReply' AND length(\"check\") = 16 "
          "AND typeof(body) = 'blob' AND cause = seq - 1");
}

}  // namespace weft
