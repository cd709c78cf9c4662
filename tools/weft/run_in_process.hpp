// The steps that a run has in common with a resumed one and with those that
// write a problem: its directory and journal, its first event, ports and host,
// and what is said at its end.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>

#include "actors/roster.hpp"
#include "runtime/host/caf_host.hpp"
#include "runtime/ports/production.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/display.hpp"
#include "tools/weft/prompt_files.hpp"
#include "tools/weft/settings_flags.hpp"

namespace weft {

/// A run that this process has, alone.
struct OpenRun {
  OpenRun(RunDirectory run, Journal stored, Scratch space)
      : directory(std::move(run)),
        journal(std::move(stored)),
        scratch(std::move(space)),
        blobs(journal) {}

  RunDirectory directory;
  Journal journal;
  Scratch scratch;
  BlobStore blobs;
};

/// A new one. wrong_input when one is there already.
Result<std::unique_ptr<OpenRun>> create_run(const std::filesystem::path& folder,
                                            Sync sync);

/// One that stopped. damaged: its journal is not whole.
Result<std::unique_ptr<OpenRun>> reopen_run(
    const std::filesystem::path& folder);

/// The exit code of a command that ends with that error.
int exit_code_of(const Error& error);

/// A run's first event, but for what it is about.
RunStart make_start(const RunOptions& options, const Machine& machine,
                    const std::vector<PromptFile>& prompts, BlobStore& blobs);

/// The first event tells what the run was asked to do.
Result<RunStart> read_start(const Journal& journal);

LlmAccess llm_access(LoadedSettings& loaded, bool cache);

/// Whether that provider can be asked: it is declared, and its key is there.
/// wrong_input, missing.
Result<void> check_llm_key(const std::vector<LlmEndpoint>& endpoints,
                           const std::string& provider);

/// What a run is hosted with.
struct Hosting {
  const CommonFlags& common;
  const ListenFlags& listen;
  const Installation& installation;
  const LlmAccess& llm;
  Display& display;
  std::stop_token stop;
  bool shows_end = true;  ///< its RunFinished is for the person
  std::unique_ptr<Role> (*make_role)(const Address&) = &weft::make_role;
};

/// Begins with `start`, told to the role `first`, and goes to the end. An
/// error: other machines cannot join.
Result<HostEnd> host_start(const Hosting& hosting, OpenRun& run,
                           const RunStart& start, const Address& first);

/// Goes on to the end.
Result<HostEnd> host_rest(const Hosting& hosting, OpenRun& run,
                          const RunStart& start,
                          Replay::ContentRule content_rule);

/// Says how it ended; the exit code. Ctrl-C leaves at once: what runs in the
/// ports dies with this process, and the journal has all that was answered.
int conclude(const CommonFlags& common, Display& display,
             const RunDirectory& run, const HostEnd& end);

}  // namespace weft
