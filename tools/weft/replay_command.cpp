#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/roster.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/journal/read_only_blobs.hpp"
#include "runtime/machine/stopwatch.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/replay_inspection.hpp"

namespace weft {
namespace {

int report_divergence(const CommonFlags& common, const Divergence& divergence) {
  return report_error(
      common, {ErrorCode::failed, "divergence at " + to_string(divergence)});
}

/// That a journal is damaged is what replay is asked to find out: then the
/// exit code is 1, as for a divergence.
int report_unreadable(const CommonFlags& common, const Error& error) {
  const int code = report_error(common, error);
  return error.code == ErrorCode::damaged ? 1 : code;
}

void print_state(const Replay& replay) {
  std::printf("%zu requests wait for a reply%s\n",
              replay.open_requests().size(),
              replay.open_requests().empty() ? "" : ":");
  for (const auto& [seq, request] : replay.open_requests()) {
    std::printf("  %s\n", format_envelope(request).c_str());
  }
}

void print_end(const CommonFlags& common, std::uint64_t events,
               std::int64_t elapsed_ms, bool ended) {
  if (common.json) {
    const nlohmann::json line = {{"events", events},
                                 {"elapsed_ms", elapsed_ms},
                                 {"divergence", false},
                                 {"finished", ended}};
    print_line(line);
    return;
  }
  std::printf("%llu events replayed in %lld ms, no divergence%s\n",
              static_cast<unsigned long long>(events),
              static_cast<long long>(elapsed_ms),
              ended ? "" : " (the run is not finished)");
}

}  // namespace

int replay_command(const CommonFlags& common, const ReplayFlags& flags) {
  const auto run = RunDirectory::open(flags.run);
  if (!run) return report_error(common, run.error());
  const auto journal = Journal::open_read_only(run->journal());
  if (!journal) return report_unreadable(common, journal.error());
  if (flags.step) return step_through(common, *journal);
  if (flags.at != 0) return show_moment(common, *journal, flags);

  const Stopwatch watch;
  ReadOnlyBlobs blobs(*journal);
  Replay replay(blobs, &make_role);
  std::uint64_t events = 0;
  bool fits = true;
  const auto read = journal->read(1, [&](const Envelope& envelope) {
    if (flags.until != 0 && envelope.seq > flags.until) return false;
    ++events;
    if (!flags.check && !common.quiet) {
      const std::string line =
          common.json ? envelope_json(envelope) : format_envelope(envelope);
      std::printf("%s\n", line.c_str());
    }
    fits = replay.feed(envelope);
    return fits;
  });
  if (!read) return report_unreadable(common, read.error());
  const bool whole = flags.until == 0 && replay.finished().has_value();
  if (fits && whole) fits = replay.finish();
  if (!fits && replay.error()) {
    return report_unreadable(common, *replay.error());
  }
  if (!fits) return report_divergence(common, *replay.divergence());
  if (flags.check) {
    // Roles do not read every blob again; their bytes are checked here.
    if (const auto sound = journal->verify(); !sound) {
      return report_unreadable(common, sound.error());
    }
  }
  const bool ended = whole || flags.until != 0;
  if (!common.quiet) {
    if (!flags.check && !common.json) print_state(replay);
    print_end(common, events, watch.elapsed_ms(), ended);
  }
  return 0;
}

}  // namespace weft
