// What the journal costs on top of SQLite: the same rows written with bare
// prepared statements, in transactions of the same size, with the same
// pragmas, on the same disk, turn by turn.
//
//     bench_journal [DIRECTORY]      (default: the current one)
#include "runtime/journal/journal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/measurement_rounds.hpp"
#include "benchmarks/sqlite_baseline.hpp"

namespace {

using weft::Envelope;
using weft::Journal;
using weft::Sync;
using namespace weft::benchmark;
namespace fs = std::filesystem;

constexpr int kRounds = 7;

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

using Groups = std::vector<std::vector<Envelope>>;

Groups make_groups(int count, int group_size) {
  Groups groups;
  auto envelopes = make_envelopes(count);
  for (auto it = envelopes.begin(); it != envelopes.end(); it += group_size) {
    groups.emplace_back(it, it + group_size);
  }
  return groups;
}

double time_bare(const fs::path& file, Sync sync, Log log,
                 const Groups& groups) {
  remove_database(file);
  BareTable table(file, sync, log);
  return seconds([&] {
    for (const auto& group : groups) table.append(group);
  });
}

double time_journal(const fs::path& file, Sync sync, Groups& groups) {
  remove_database(file);
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
  std::vector<double> bare, journal, ratio, laid_out;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(count / time_bare(file, sync, Log::grows, groups));
    const double laid_out_s = time_bare(file, sync, Log::laid_out, groups);
    const double journal_s = time_journal(file, sync, groups);
    journal.push_back(count / journal_s);
    ratio.push_back(journal.back() / bare.back());
    laid_out.push_back(laid_out_s / journal_s);
  }
  std::printf(
      "append  sync %-6s group %4d: journal %8.0f/s  "
      "SQLite %8.0f/s  ratio %.2f (%.2f to %.2f), to SQLite with its log laid "
      "out %.2f\n",
      sync == Sync::full ? "full" : "normal", group_size, median(journal),
      median(bare), median(ratio), std::ranges::min(ratio),
      std::ranges::max(ratio), median(laid_out));
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
  remove_database(file);
}
