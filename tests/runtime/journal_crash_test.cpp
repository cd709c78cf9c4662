// Writers that are killed, disks that are full, logs that are cut. The
// writers are children of their own, because each has to die.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "runtime/store/sha256.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

/// Appends for ever, and writes the last seq to `report` after each append().
[[noreturn]] void write_for_ever(const fs::path& file, int report) {
  auto journal = Journal::open(file, Sync::normal);
  if (!journal) ::_exit(1);
  for (;;) {
    auto group = envelopes(1, 3);
    const auto hash = journal->put_blob(std::to_string(journal->last_seq()));
    group[0].body = hash.value_or("");
    if (!journal->append(group)) ::_exit(1);
    const auto seq = journal->last_seq();
    if (::write(report, &seq, sizeof seq) != sizeof seq) ::_exit(1);
  }
}

/// The last seq reported by a writer that is killed when it has reported as
/// often as this, `spins` turns of an empty loop later.
std::uint64_t kill_writer(const fs::path& file, int reports, int spins) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) write_for_ever(file, ends[1]);
  ::close(ends[1]);
  std::uint64_t seq = 0;
  std::uint64_t last = 0;
  for (int i = 0; i < reports; ++i) {
    REQUIRE(::read(ends[0], &seq, sizeof seq) == sizeof seq);
    last = seq;
  }
  for (volatile int i = 0; i < spins;) i = i + 1;
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  // What it reported before it died counts too.
  while (::read(ends[0], &seq, sizeof seq) == sizeof seq) last = seq;
  ::close(ends[0]);
  return last;
}

/// A killed writer's files: the database and a log not yet in it.
void copy_as_killed(const fs::path& from, const fs::path& to) {
  for (const char* suffix : {"", "-wal", "-lock"}) {
    fs::copy_file(from.string() + suffix, to.string() + suffix,
                  fs::copy_options::overwrite_existing);
  }
  fs::remove(to.string() + "-shm");
}

/// In a child whose files can't grow past `bytes_max`: 0 when an append fails
/// as it should and the journal goes on once there is room again.
int append_past_limit(const fs::path& file, rlim_t bytes_max) {
  ::signal(SIGXFSZ, SIG_IGN);
  auto journal = Journal::open(file, Sync::full);
  if (!journal) return 1;
  rlimit limit;
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlim_t unlimited = limit.rlim_cur;
  limit.rlim_cur = bytes_max;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  auto group = envelopes(6, 400);
  for (auto& envelope : group) envelope.body.resize(1000);
  if (!journal->put_blob("kept for the next append")) return 2;
  const auto refused = journal->append(group);
  if (refused || refused.error().code != ErrorCode::failed) return 3;
  if (group[0].seq != 0 || journal->last_seq() != 5) return 4;
  if (!journal->verify()) return 5;
  limit.rlim_cur = unlimited;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  if (!journal->append(group)) return 6;
  if (!journal->get_blob(content_hash("kept for the next append"))) return 7;
  return journal->verify() && journal->last_seq() == 400 ? 0 : 8;
}

}  // namespace

TEST_CASE("a writer killed at any moment loses nothing it had appended") {
  Directory directory;
  const auto file = directory / "j.db";
  (void)value(Journal::create(file, Sync::normal));
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    const auto reported = kill_writer(file, static_cast<int>(1 + random() % 20),
                                      static_cast<int>(random() % 100'000));
    value(open_and_verify(file));
    const auto journal = value(Journal::open(file, Sync::full));
    CHECK(journal.last_seq() >= reported);
    CHECK(journal.last_seq() % 3 == 0);
    value(journal.verify());
  }
}

TEST_CASE("a full disk fails the whole group and leaves the journal usable") {
  Directory directory;
  write_example(directory / "j.db");
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) ::_exit(append_past_limit(directory / "j.db", 100'000));
  int status = 0;
  ::waitpid(writer, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  value(open_and_verify(directory / "j.db"));
}

TEST_CASE("the log of a killed writer shows when it was cut or changed") {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::full));
  auto first = envelopes(1, 5);
  value(journal.append(first));
  auto second = envelopes(6, 9);
  value(journal.append(second));
  const auto copy = directory / "copy.db";
  copy_as_killed(directory / "j.db", copy);
  value(open_and_verify(copy));

  // A byte of the last frame: SQLite takes it for one never finished.
  const auto wal = directory / "copy.db-wal";
  copy_as_killed(directory / "j.db", copy);
  auto bytes = load(wal);
  bytes[bytes.find_last_not_of('\0')] ^= 1;
  store(wal, bytes);
  const auto verified = open_and_verify(copy);
  CHECK(says(verified, "event 6 is missing: 9 were written"));
  const auto opened = Journal::open(copy, Sync::full);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == ErrorCode::damaged);

  // As the message says, what is left can be gone on from.
  fs::remove(directory / "copy.db-lock");
  CHECK(value(Journal::open(copy, Sync::full)).last_seq() == 5);
}

TEST_CASE("a full sync's log has its length before the first commit") {
  Directory directory;
  const auto log = directory / "j.db-wal";
  auto journal = value(Journal::create(directory / "j.db", Sync::full));
  const auto length_bytes = fs::file_size(log);
  CHECK(length_bytes >= 8 << 20);
  for (int number = 1; number <= 50; ++number) {
    auto group = envelopes(number, number);
    value(journal.append(group));
  }
  CHECK(fs::file_size(log) == length_bytes);
}

TEST_CASE("lengthening a killed writer's log loses nothing") {
  Directory directory;
  const auto file = directory / "j.db";
  auto journal = value(Journal::create(file, Sync::normal));
  auto group = envelopes(1, 9);
  value(journal.append(group));
  const auto copy = directory / "copy.db";
  copy_as_killed(file, copy);
  auto opened = value(Journal::open(copy, Sync::full));
  CHECK(value(read_all(opened)) == group);
  auto more = envelopes(10, 12);
  value(opened.append(more));
  copy_as_killed(copy, directory / "again.db");
  value(open_and_verify(directory / "again.db"));
  CHECK(value(Journal::open(directory / "again.db", Sync::full)).last_seq() ==
        12);
}

TEST_CASE("a writer that died does not keep the journal locked") {
  Directory directory;
  const auto file = directory / "j.db";
  (void)value(Journal::create(file, Sync::normal));
  (void)kill_writer(file, 1, 0);
  (void)value(Journal::open(file, Sync::full));
}

}  // namespace weft
