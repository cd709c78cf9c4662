// The weft command's verbs. Each returns the process's exit code: 0 verified,
// 1 finished but not verified, 2 wrong input or usage, 3 something missing on
// the machine, 130 interrupted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "messages/run.hpp"
#include "runtime/machine/installation.hpp"

namespace weft {

/// What all verbs share.
struct CommonFlags {
  std::optional<std::string> python;
  std::optional<std::filesystem::path> config;  ///< of --config
  bool verbose = false;
  bool quiet = false;
  bool json = false;
};

/// Whether other machines may join a run.
struct ListenFlags {
  std::string endpoint;  ///< "tcp://HOST:PORT"; empty: none may
  std::optional<std::filesystem::path> keys;
  double silence_s = 15;  ///< Silence after which a node is lost.
  bool no_local = false;  ///< The head leaves all work to nodes.
  std::string classes;    ///< Part of the timing class's name; empty: any.
  /// Nodes come from `weft fleet`, and do all that a run has done.
  bool is_fleet = false;
};

struct RunFlags {
  ListenFlags listen;
  std::filesystem::path problem;
  std::filesystem::path graph;  ///< the problem's, captured before; or empty
  std::optional<std::filesystem::path> out;
  RunOptions options;
  bool fast_sync = false;  ///< survive the process's death, not a power cut
  bool llm_cache = true;   ///< give what earlier runs were answered
  std::string describe;    ///< the problem in plain words, instead of a file
  bool yes = false;        ///< nobody is asked whether that is what was meant
  bool train = false;      ///< the backward pass, too
  bool untrusted_problem = false;  ///< its code runs in a sandbox only
  std::vector<std::string> words;  ///< those flags that each pass's run gets
  bool only_partition = false;     ///< stop when the model is partitioned
};

int run_command(const CommonFlags& common, const RunFlags& flags);

/// `flags.problem` is a problem file, whose model is captured and partitioned,
/// or a run directory.
int explain_command(const CommonFlags& common, const RunFlags& flags);

struct ResumeFlags {
  std::filesystem::path run;
  bool llm_cache = true;
  ListenFlags listen;
  bool recorded = false;  ///< what another weft decided stands
  bool trusted = false;   ///< the journal says what holds, whoever began it
  std::optional<std::filesystem::path> library;  ///< of somebody else's run
};
int resume_command(const CommonFlags& common, const ResumeFlags& flags);

struct ForkFlags {
  std::filesystem::path run;
  std::uint64_t at = 0;               ///< the last event that is kept
  std::vector<std::string> settings;  ///< "variants=8"
  std::optional<std::filesystem::path> reply;
  std::optional<std::filesystem::path> out;
  bool only_make = false;  ///< and not go on
  ResumeFlags resume;      ///< how to go on
};
int fork_command(const CommonFlags& common, const ForkFlags& flags);

struct DiffFlags {
  std::filesystem::path left, right;
};
/// 1: the runs part.
int diff_command(const CommonFlags& common, const DiffFlags& flags);

struct UiFlags {
  std::filesystem::path root;             ///< a run, or a folder of runs
  std::string listen = "127.0.0.1:8765";  ///< HOST:PORT
  bool token = false;                     ///< wanted on loopback, too
};
int ui_command(const CommonFlags& common, const UiFlags& flags);

struct ReplayFlags {
  std::filesystem::path run;
  bool check = false;
  std::uint64_t until = 0;  ///< 0: to the end
  bool step = false;        ///< commands are read from the standard input
  std::uint64_t at = 0;     ///< only what stands at this event; 0: not asked
  std::string state;        ///< of this role, or "all", at `at`
};
int replay_command(const CommonFlags& common, const ReplayFlags& flags);

struct ShowFlags {
  std::filesystem::path run;
  bool events = false;
  std::string subgraph;  ///< or "SUBGRAPH/CANDIDATE"; empty: all
  /// Of report.html; empty: the run's own. nullopt: none is asked for.
  std::optional<std::string> html;
};
int show_command(const CommonFlags& common, const ShowFlags& flags);

struct SimulateFlags {
  std::string random_seeds = "0..1000";
  /// Run directory to keep the journal of one random seed in; nullopt: none is
  /// kept.
  std::optional<std::filesystem::path> out;
};
int simulate_command(const CommonFlags& common, const SimulateFlags& flags);

/// What a run needs of this machine, before anything is written.
/// `needs_torch`: an error where it has none.
Result<Installation> ready_installation(const CommonFlags& common,
                                        bool needs_torch = true);

/// Prints the error for a person (or a tool) and returns its exit code.
int report_error(const CommonFlags& common, const Error& error);

}  // namespace weft
