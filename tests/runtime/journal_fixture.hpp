// What the journal's tests share: a directory of their own, envelopes to
// write, and SQL to do damage with.
#pragma once

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/journal/journal.hpp"

namespace weft {

namespace fs = std::filesystem;

/// A fresh directory, removed at the end of the test.
class Directory {
 public:
  Directory() {
    std::string name =
        (fs::temp_directory_path() / "weft_journal_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Directory(const Directory&) = delete;
  ~Directory() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline Envelope envelope(int number) {
  Envelope envelope{0,  0, 1'700'000'000'000'000 + number, "dispatcher", "",
                    "", ""};
  envelope.dst = "agent/sg_" + std::to_string(number);
  envelope.type = "VerifyReply";
  envelope.body = "body " + std::to_string(number) + std::string("\0\xff", 2);
  return envelope;
}

inline std::vector<Envelope> envelopes(int from, int to) {
  std::vector<Envelope> group;
  for (int number = from; number <= to; ++number) {
    group.push_back(envelope(number));
    group.back().cause = static_cast<std::uint64_t>(number - 1);
  }
  return group;
}

/// The value, or the test fails with the error's message.
template <class T>
T value(Result<T> result) {
  REQUIRE_MESSAGE(result.has_value(),
                  (result ? std::string() : result.error().message));
  return std::move(*result);
}
inline void value(Result<void> result) {
  REQUIRE_MESSAGE(result.has_value(),
                  (result ? std::string() : result.error().message));
}

inline Result<std::vector<Envelope>> read_all(const Journal& journal,
                                              std::uint64_t from = 1) {
  std::vector<Envelope> all;
  auto done = journal.read(from, [&](const Envelope& envelope) {
    all.push_back(envelope);
    return true;
  });
  if (!done) return std::unexpected(done.error());
  return all;
}

/// Five events, two blobs (one compressed) and a meta value, closed, so that
/// all is in one file.
inline void write_example(const fs::path& file) {
  auto journal = value(Journal::create(file, Sync::normal));
  value(journal.set_meta("weft_version", "0.1.0"));
  value(journal.put_blob(std::string(500, 'x')));
  value(journal.put_blob("raw"));
  auto group = envelopes(1, 5);
  value(journal.append(group));
}

/// Runs SQL on the file, as a person with an SQLite tool could.
inline void run_sql(const fs::path& file, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  char* message = nullptr;
  const int code =
      sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &message);
  const std::string text = message == nullptr ? "" : message;
  sqlite3_free(message);
  sqlite3_close(database);
  REQUIRE_MESSAGE(code == SQLITE_OK, sql << ": " << text);
}

inline std::string load(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void store(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Whatever error the journal gives when it is opened and verified.
inline Result<void> open_and_verify(const fs::path& file) {
  auto journal = Journal::open_read_only(file);
  if (!journal) return std::unexpected(journal.error());
  return journal->verify();
}

template <class T>
bool says(const Result<T>& result, const std::string& words) {
  return !result && result.error().message.find(words) != std::string::npos;
}

}  // namespace weft
