// What the journal costs on top of SQLite: the same rows written with bare
// prepared statements, in transactions of the same size, with the same
// pragmas, on the same disk, turn by turn.
//
//     bench_journal [DIRECTORY]      (default: the current one)
#include "runtime/journal.hpp"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using weft::Envelope;
using weft::Journal;
using weft::Sync;
namespace fs = std::filesystem;

constexpr int kRounds = 7;

void require(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "bench_journal: %s\n", what.c_str());
  std::exit(1);
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

/// Bodies of 200 to 600 bytes, like messages; the seed is fixed.
std::vector<Envelope> make_envelopes(int count) {
  std::mt19937 random(20240229);
  std::vector<Envelope> envelopes;
  for (int i = 0; i < count; ++i) {
    Envelope envelope{0,
                      static_cast<std::uint64_t>(i),
                      1'700'000'000'000'000,
                      "dispatcher",
                      "agent/sg_1f2e3d4c",
                      "VerifyReply",
                      ""};
    envelope.body.resize(200 + random() % 401);
    for (char& byte : envelope.body) byte = static_cast<char>(random());
    envelopes.push_back(std::move(envelope));
  }
  return envelopes;
}

void remove_journal(const fs::path& file) {
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) {
    fs::remove(file.string() + suffix);
  }
}

/// The rows without the chain, as a program without weft would write them.
class BareTable {
 public:
  BareTable(const fs::path& file, Sync sync) {
    require(sqlite3_open_v2(file.c_str(), &database_,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                SQLITE_OPEN_NOMUTEX,
                            nullptr) == SQLITE_OK,
            "cannot open " + file.string());
    execute("PRAGMA journal_mode = WAL");
    execute(sync == Sync::full ? "PRAGMA synchronous = FULL"
                               : "PRAGMA synchronous = NORMAL");
    execute(
        "CREATE TABLE event(seq INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, "
        "cause INTEGER NOT NULL, src TEXT NOT NULL, dst TEXT NOT NULL, "
        "type TEXT NOT NULL, body BLOB NOT NULL)");
    begin_ = prepare("BEGIN");
    commit_ = prepare("COMMIT");
    insert_ = prepare("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)");
  }
  ~BareTable() {
    for (auto* statement : {begin_, commit_, insert_}) {
      sqlite3_finalize(statement);
    }
    sqlite3_close(database_);
  }

  void append(const std::vector<Envelope>& group) {
    run(begin_);
    for (const auto& envelope : group) insert(envelope);
    run(commit_);
  }

 private:
  void execute(const char* sql) {
    require(
        sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK,
        sqlite3_errmsg(database_));
  }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    require(sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr) ==
                SQLITE_OK,
            sqlite3_errmsg(database_));
    return statement;
  }
  void run(sqlite3_stmt* statement) {
    require(sqlite3_step(statement) == SQLITE_DONE, sqlite3_errmsg(database_));
    sqlite3_reset(statement);
  }
  void text(int index, const std::string& value) {
    sqlite3_bind_text(insert_, index, value.data(),
                      static_cast<int>(value.size()), SQLITE_STATIC);
  }
  void insert(const Envelope& envelope) {
    sqlite3_bind_int64(insert_, 1, ++seq_);
    sqlite3_bind_int64(insert_, 2, envelope.at_us);
    sqlite3_bind_int64(insert_, 3, static_cast<sqlite3_int64>(envelope.cause));
    text(4, envelope.src);
    text(5, envelope.dst);
    text(6, envelope.type);
    sqlite3_bind_blob(insert_, 7, envelope.body.data(),
                      static_cast<int>(envelope.body.size()), SQLITE_STATIC);
    run(insert_);
  }

  sqlite3* database_ = nullptr;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  sqlite3_int64 seq_ = 0;
};

using Groups = std::vector<std::vector<Envelope>>;

Groups make_groups(int count, int group_size) {
  Groups groups;
  auto envelopes = make_envelopes(count);
  for (auto it = envelopes.begin(); it != envelopes.end(); it += group_size) {
    groups.emplace_back(it, it + group_size);
  }
  return groups;
}

double time_bare(const fs::path& file, Sync sync, const Groups& groups) {
  remove_journal(file);
  BareTable table(file, sync);
  return seconds([&] {
    for (const auto& group : groups) table.append(group);
  });
}

double time_journal(const fs::path& file, Sync sync, Groups& groups) {
  remove_journal(file);
  auto journal = Journal::create(file, sync);
  require(journal.has_value(), file.string() + ": cannot create");
  return seconds([&] {
    for (auto& group : groups) {
      const auto done = journal->append(group);
      require(done.has_value(), done ? "" : done.error().message);
    }
  });
}

void compare(const fs::path& file, Sync sync, int count, int group_size) {
  auto groups = make_groups(count, group_size);
  std::vector<double> bare, journal, ratio;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(count / time_bare(file, sync, groups));
    journal.push_back(count / time_journal(file, sync, groups));
    ratio.push_back(journal.back() / bare.back());
  }
  std::printf(
      "append  sync %-6s group %4d: journal %8.0f/s  "
      "SQLite %8.0f/s  ratio %.2f (%.2f to %.2f)\n",
      sync == Sync::full ? "full" : "normal", group_size, median(journal),
      median(bare), median(ratio), std::ranges::min(ratio),
      std::ranges::max(ratio));
}

/// Reads what the last comparison left: every envelope, its check verified.
void time_read(const fs::path& file, int count) {
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const auto journal = Journal::open_read_only(file);
    require(journal.has_value(), file.string() + ": cannot open");
    int seen = 0;
    const double taken = seconds([&] {
      const auto done = journal->read(1, [&](const Envelope&) {
        ++seen;
        return true;
      });
      require(done.has_value(), done ? "" : done.error().message);
    });
    require(seen == count, "read() skipped envelopes");
    rates.push_back(count / taken);
  }
  std::printf("read    verifying the chain  : journal %8.0f/s\n",
              median(rates));
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path directory = argc > 1 ? argv[1] : ".";
  const auto file =
      directory / ("bench_journal." + std::to_string(::getpid()) + ".db");
  for (const Sync sync : {Sync::full, Sync::normal}) {
    compare(file, sync, 1'000, 1);
    compare(file, sync, 10'000, 10);
    compare(file, sync, 20'000, 100);
    compare(file, sync, 20'000, 1'000);
  }
  time_read(file, 20'000);
  remove_journal(file);
}
