#include "tools/weft/run_in_process.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/capabilities.hpp"
#include "config/llm_settings.hpp"
#include "messages/shown_text.hpp"
#include "messages/untrusted.hpp"
#include "runtime/host/crash_handler.hpp"
#include "runtime/host/decisions_version.hpp"
#include "runtime/llm/key.hpp"
#include "runtime/ports/node_ports.hpp"
#include "runtime/store/llm_store.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/open_bus.hpp"
#include "tools/weft/report_file.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

/// Less than that free, what a run writes of a kernel may lack room.
constexpr std::int64_t kRunSpaceBytes = std::int64_t{2} << 20;

/// Who began the run, and who goes on with it: for when they disagree.
std::string version_text(const RunStart& start) {
  const auto of = [](const std::string& version, std::string_view decisions) {
    if (decisions.empty()) return "weft " + version;
    return "weft " + version + ", decisions " + std::string(decisions);
  };
  return "begun by " + of(start.weft_version, start.decisions) + "; this is " +
         of(weft_version(), decisions_version());
}

Result<std::unique_ptr<OpenRun>> open_with(Result<RunDirectory> directory,
                                           Result<Journal> journal) {
  if (!journal) return std::unexpected(journal.error());
  auto scratch = Scratch::make(*directory);
  if (!scratch) return std::unexpected(scratch.error());
  install_crash_handler();
  set_crash_run(directory->folder());
  return std::make_unique<OpenRun>(std::move(*directory), std::move(*journal),
                                   std::move(*scratch));
}

HostOptions host_options(const Hosting& hosting) {
  HostOptions options;
  options.make_role = hosting.make_role;
  options.on_user = [&hosting](const Envelope& envelope,
                               const Message& message) {
    const bool is_end = std::holds_alternative<RunFinished>(message);
    if (!is_end || hosting.shows_end) hosting.display.show(envelope, message);
  };
  if (hosting.display.is_live()) {
    options.on_event = [&hosting](const Envelope& envelope) {
      hosting.display.take(envelope);
    };
  }
  return options;
}

/// How far a run was that goes on now.
Result<void> show_past(Display& display, const Journal& journal) {
  if (!display.is_live()) return {};
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    display.take(envelope);
    return true;
  });
  display.go_on();
  return read;
}

using Go = std::function<Result<HostEnd>(Ports& ports, HostOptions options)>;

/// The ports live as long as the host works.
Result<HostEnd> host(const Hosting& hosting, OpenRun& run,
                     const RunStart& start, const Go& go) {
  const auto bus =
      open_bus(hosting.common, hosting.listen, run.directory,
               hosting.installation, run.journal, run.blobs, start);
  if (!bus) return std::unexpected(bus.error());
  if (*bus) {
    hosting.display.say("listening for nodes on " + (*bus)->endpoint());
  }
  Production production =
      make_production(run.directory, run.scratch, hosting.installation,
                      run.blobs, start, hosting.llm);
  take_what_nodes_build(bus->get(), run.blobs, *production.cache,
                        head_can(start, capability::judge));
  if (hosting.shows_end) {
    hosting.display.begin_bars(
        start, run.directory.folder(),
        [&run](std::string_view hash) { return run.blobs.get(hash); });
  }
  HostOptions options = host_options(hosting);
  options.nodes = bus->get();
  options.why_unfit = [&run] {
    return no_space_reason(run.directory, run.scratch, kRunSpaceBytes);
  };
  return go(production.ports, std::move(options));
}

/// Exit code of a run that waits for a batch of its language model's provider.
constexpr int kSuspendedExitCode = 5;

int report_suspended(const CommonFlags& common, const std::string& waits_for,
                     const std::string& folder) {
  if (common.json) {
    print_line({{"suspended", waits_for}, {"exit_code", kSuspendedExitCode}});
  }
  std::fprintf(stderr,
               "weft: suspended: the run waits for %s; later, go on with: weft "
               "resume %s\n",
               terminal_paragraph(waits_for).c_str(), folder.c_str());
  return kSuspendedExitCode;
}

/// The run stands without its page: one that cannot be made is said, and no
/// more.
void write_page(Display& display, const RunDirectory& run) {
  const auto file = report_path(run);
  if (const auto written = write_report(run, file); !written) {
    std::fprintf(stderr, "weft: no report.html: %s\n",
                 terminal_paragraph(written.error().message).c_str());
    return;
  }
  display.say("to look at: " + file.string());
}

}  // namespace

int conclude(const CommonFlags& common, Display& display,
             const RunDirectory& run, const HostEnd& end) {
  const std::string folder = run.folder().string();
  switch (end.kind) {
    case HostEnd::Kind::broken:
      return report_error(common, end.error);
    case HostEnd::Kind::interrupted:
      std::fprintf(stderr, "weft: interrupted; go on with: weft resume %s\n",
                   folder.c_str());
      return 130;
    case HostEnd::Kind::suspended:
      return report_suspended(common, end.waits_for, folder);
    case HostEnd::Kind::finished:
      break;
  }
  if (end.finished.exit_code >= 1 && !common.json) {
    std::fprintf(stderr, "weft: %s\n",
                 terminal_paragraph(end.finished.summary).c_str());
  } else {
    display.say(end.finished.summary);
  }
  std::error_code ignored;
  if (std::filesystem::exists(run.folder() / "report.md", ignored)) {
    display.say("report: " + folder + "/report.md");
  }
  write_page(display, run);
  return end.finished.exit_code;
}

int exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::wrong_input:
    case ErrorCode::damaged:
      return 2;
    case ErrorCode::missing:
      return 3;
    case ErrorCode::failed:
      return 1;
  }
  return 1;
}

int report_error(const CommonFlags& common, const Error& error) {
  if (common.json) {
    const nlohmann::json line = {{"error", error.message},
                                 {"exit_code", exit_code_of(error)}};
    print_line(line);
  }
  std::fprintf(stderr, "weft: %s\n", terminal_paragraph(error.message).c_str());
  return exit_code_of(error);
}

Result<std::unique_ptr<OpenRun>> create_run(const std::filesystem::path& folder,
                                            Sync sync) {
  auto directory = RunDirectory::create(folder);
  if (!directory) return std::unexpected(directory.error());
  auto journal = Journal::create(directory->journal(), sync);
  return open_with(std::move(directory), std::move(journal));
}

Result<std::unique_ptr<OpenRun>> reopen_run(
    const std::filesystem::path& folder) {
  auto directory = RunDirectory::open(folder);
  if (!directory) return std::unexpected(directory.error());
  auto journal = Journal::open(directory->journal(), Sync::full);
  if (!journal) return std::unexpected(journal.error());
  if (const auto sound = journal->verify(); !sound) {
    return std::unexpected(sound.error());
  }
  return open_with(std::move(directory), std::move(journal));
}

RunStart make_start(const RunOptions& options, const Machine& machine,
                    const std::vector<PromptFile>& prompts, BlobStore& blobs) {
  RunStart start;
  start.options = options;
  start.options.llm.prompts = keep_prompts(prompts, blobs);
  start.machine = machine;
  start.weft_version = weft_version();
  start.vocabulary = vocabulary_version;
  start.decisions = decisions_version();
  start.seeks_products = true;
  return start;
}

Result<RunStart> read_start(const Journal& journal) {
  Result<RunStart> start =
      fail(ErrorCode::wrong_input,
           "the journal is empty: the run died before its first event; "
           "begin again with 'weft run', which may have this --out");
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (message && std::holds_alternative<RunStart>(*message)) {
      start = std::get<RunStart>(*message);
    }
    return false;
  });
  if (!read) return std::unexpected(read.error());
  if (!start) return start;
  if (const auto sound = check_start(*start); !sound) {
    return fail(ErrorCode::wrong_input,
                "the journal's RunStart is not one that weft writes: " +
                    sound.error().message);
  }
  return start;
}

LlmAccess llm_access(LoadedSettings& loaded, bool cache) {
  return {std::move(loaded.endpoints),
          cache ? default_llm_cache() : std::filesystem::path()};
}

Result<void> check_llm_key(const std::vector<LlmEndpoint>& endpoints,
                           const std::string& provider) {
  const auto endpoint = find_endpoint(endpoints, provider);
  if (!endpoint) return std::unexpected(endpoint.error());
  const auto key = read_key(*endpoint);
  if (!key) return std::unexpected(key.error());
  return check_key_use(*endpoint, *key);
}

Result<HostEnd> host_start(const Hosting& hosting, OpenRun& run,
                           const RunStart& start, const Address& first) {
  return host(hosting, run, start, [&](Ports& ports, HostOptions options) {
    return host_run(run.journal, run.blobs, ports, options, first, start,
                    hosting.stop);
  });
}

Result<HostEnd> host_rest(const Hosting& hosting, OpenRun& run,
                          const RunStart& start,
                          Replay::ContentRule content_rule) {
  return host(hosting, run, start,
              [&](Ports& ports, HostOptions options) -> Result<HostEnd> {
                const auto shown = show_past(hosting.display, run.journal);
                if (!shown) return std::unexpected(shown.error());
                options.version_text = version_text(start);
                options.content_rule = content_rule;
                return host_resume(run.journal, run.blobs, ports, options,
                                   hosting.stop);
              });
}

}  // namespace weft
