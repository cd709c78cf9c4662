// What the CAF host costs on top of SQLite. Many in flight: envelopes journaled
// and delivered to roles, against SQLite's own batched inserts of the same
// rows. One in flight: a round trip's envelopes, against one commit each.
//
//     bench_host [DIRECTORY]      (default: the current one)
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/measurement_rounds.hpp"
#include "benchmarks/message_ping_pong.hpp"
#include "benchmarks/sqlite_baseline.hpp"
#include "runtime/host/caf_host.hpp"

namespace {

using namespace weft;
using namespace weft::benchmark;
namespace fs = std::filesystem;

constexpr int kRounds = 7;
/// Rows of one of SQLite's transactions in the comparison with many in flight.
constexpr std::size_t kBatch = 1000;

struct Game {
  int balls;
  std::uint64_t hops;
  Sync sync;
  std::size_t batch;  ///< rows in one of SQLite's transactions
};

double host_seconds(const fs::path& file, const Game& game) {
  remove_database(file);
  auto journal = Journal::create(file, game.sync);
  require(journal.has_value(), file.string() + ": cannot create");
  BlobStore blobs(*journal);
  Ports ports;
  HostOptions options;
  options.make_role = players(game.balls, game.hops);
  return seconds([&] {
    const HostEnd end =
        host_run(*journal, blobs, ports, options, "hub", RunStart{}, {});
    require(end.kind == HostEnd::Kind::finished, end.error.message);
  });
}

std::vector<Envelope> rows_of(const fs::path& file) {
  std::vector<Envelope> rows;
  const auto journal = Journal::open_read_only(file);
  require(journal.has_value(), file.string() + ": cannot open");
  const auto read = journal->read(1, [&](const Envelope& envelope) {
    rows.push_back(envelope);
    return true;
  });
  require(read.has_value(), "cannot read the journal back");
  return rows;
}

double bare_seconds(const fs::path& file, const Game& game, Log log,
                    std::span<const Envelope> rows) {
  remove_database(file);
  BareTable table(file, game.sync, log);
  return seconds([&] {
    for (; !rows.empty();
         rows = rows.subspan(std::min(game.batch, rows.size()))) {
      table.append(rows.first(std::min(game.batch, rows.size())));
    }
  });
}

void compare(const char* title, const fs::path& file, const Game& game) {
  std::vector<double> host, bare, ratio, laid_out;
  std::size_t count = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double host_s = host_seconds(file, game);
    const auto rows = rows_of(file);
    count = rows.size();
    const double bare_s = bare_seconds(file, game, Log::grows, rows);
    laid_out.push_back(bare_seconds(file, game, Log::laid_out, rows) / host_s);
    host.push_back(static_cast<double>(count) / host_s);
    bare.push_back(static_cast<double>(count) / bare_s);
    ratio.push_back(bare_s / host_s);
  }
  std::printf(
      "%-14s sync %-6s %6zu envelopes: host %8.0f/s  SQLite %8.0f/s  ratio "
      "%.2f (%.2f to %.2f), to SQLite with its log laid out %.2f\n",
      title, game.sync == Sync::full ? "full" : "normal", count, median(host),
      median(bare), median(ratio), std::ranges::min(ratio),
      std::ranges::max(ratio), median(laid_out));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path directory = argc > 1 ? argv[1] : ".";
  const auto file =
      directory / ("bench_host." + std::to_string(::getpid()) + ".db");
  for (const Sync sync : {Sync::full, Sync::normal}) {
    compare("many in flight", file, {2000, 24, sync, kBatch});
    compare("one in flight", file, {1, 400, sync, 1});
  }
  remove_database(file);
}
