// Options that several commands take. The flags that they fill must outlive the
// parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/weft/commands.hpp"

namespace weft {

/// The options of every command.
void add_common(CLI::App& app, CommonFlags& common);

CLI::Option* add_untrusted(CLI::App& app, bool& flag);

/// The flags of a run that [run] can set, too.
std::vector<CLI::Option*> add_settable(CLI::App& app, RunFlags& flags);

/// Whether other machines may join a run. Returns what was added.
std::vector<CLI::Option*> add_listen(CLI::App& app, ListenFlags& flags);

/// --classes; after add_listen().
void add_classes(CLI::App& app, ListenFlags& flags);

/// How far the journal of a run that somebody else began is believed.
void add_trust(CLI::App& app, ResumeFlags& flags);

/// A check: the fault of text that is no tcp://HOST:PORT; empty: it is one.
std::string fault_of_address(const std::string& text);

/// A check for whole numbers from 1: CLI11's PositiveNumber takes 1.5, and
/// names the largest double to a user who writes something else.
CLI::Range event_number();

}  // namespace weft
