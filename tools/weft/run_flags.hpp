// The flags that say how a run goes about its problem, shared by the verbs
// that start runs: `run` for itself, `bench` for each of its problems.
#pragma once

#include <string>
#include <vector>

#include "messages/run.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft {

/// What can be built for, and "auto".
std::vector<std::string> target_names();

/// Adds them; `options` must outlive the app. Returns what was added.
std::vector<CLI::Option*> add_run_flags(CLI::App& app, RunOptions& options);

/// Those of the flags that were given, as they would be typed.
std::vector<std::string> words_of(const std::vector<CLI::Option*>& flags);

}  // namespace weft
