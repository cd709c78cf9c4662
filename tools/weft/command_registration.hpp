// The commands of weft and their options, as CLI11 gets them. Each function
// adds one command, or the commands that its comment names. The command writes
// its exit code to `code`; `app`, `common` and `code` must outlive the parsing.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/weft/commands.hpp"

namespace weft {

// use_registration.cpp: commands that find, judge or continue.
void add_run(CLI::App& app, CommonFlags& common, int& code);
void add_eval(CLI::App& app, CommonFlags& common, int& code);
void add_attached(CLI::App& app, int& code);
void add_bench(CLI::App& app, CommonFlags& common, int& code);
void add_resume(CLI::App& app, CommonFlags& common, int& code);
void add_doctor(CLI::App& app, CommonFlags& common, int& code);
void add_config(CLI::App& app, CommonFlags& common, int& code);

// inspect_registration.cpp: commands that read the journal of a run.
void add_show(CLI::App& app, CommonFlags& common, int& code);
void add_explain(CLI::App& app, CommonFlags& common, int& code);
void add_ui(CLI::App& app, CommonFlags& common, int& code);
void add_export(CLI::App& app, CommonFlags& common, int& code);
void add_replay(CLI::App& app, CommonFlags& common, int& code);
void add_diff(CLI::App& app, CommonFlags& common, int& code);
void add_fork(CLI::App& app, CommonFlags& common, int& code);

/// node, keygen, cluster, fleet, head and head-link.
void add_nodes(CLI::App& app, CommonFlags& common, int& code);

/// llm and its subcommands.
void add_llm(CLI::App& app, CommonFlags& common, int& code);

// development_registration.cpp: commands for people who tune or develop weft.
void add_choices(CLI::App& app, CommonFlags& common, int& code);
void add_tune(CLI::App& app, CommonFlags& common, int& code);
void add_simulate(CLI::App& app, CommonFlags& common, int& code);
/// completion and manual: the command line as CLI11 knows it.
void add_manual(CLI::App& app, int& code);

}  // namespace weft
