#include "tools/weft/shared_options.hpp"

#include <cstdlib>
#include <string>
#include <thread>

#include "runtime/sandbox/sandbox_mode.hpp"
#include "tools/weft/number_range.hpp"
#include "tools/weft/run_flags.hpp"

namespace weft {

void add_common(CLI::App& app, CommonFlags& common) {
  app.add_option("--python", common.python,
                 "Python with PyTorch (else WEFT_PYTHON, then weft's own)");
  app.add_option("--config", common.config,
                 "Another file of settings, stronger than the usual ones");
  app.add_option_function<std::string>(
         "--sandbox",
         [](const std::string& mode) {
           // Child processes inherit it.
           setenv(kSandboxModeVariable, mode.c_str(), 1);
         },
         "none: kernels run with all your rights (default: box)")
      ->check(CLI::IsMember({"box", "none"}));
  auto* verbose = app.add_flag("-v,--verbose", common.verbose, "Tell more");
  auto* quiet = app.add_flag("-q,--quiet", common.quiet, "Errors only");
  app.add_flag("--json", common.json, "One JSON object a line")
      ->excludes(verbose)
      ->excludes(quiet);
  quiet->excludes(verbose);
}

CLI::Option* add_untrusted(CLI::App& app, bool& flag) {
  return app.add_flag("--untrusted-problem", flag,
                      "Run the problem's code in a sandbox, too; takes more "
                      "memory");
}

std::vector<CLI::Option*> add_settable(CLI::App& app, RunFlags& flags) {
  auto all = add_run_flags(app, flags.options);
  flags.options.jobs =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  all.push_back(
      app.add_option("--jobs", flags.options.jobs, "Subgraphs at a time")
          ->check(CLI::Range(1, 256))
          ->capture_default_str());
  all.push_back(add_untrusted(app, flags.untrusted_problem));
  all.push_back(app.add_flag("--fast-sync", flags.fast_sync,
                             "Journal survives weft's death, not a power cut"));
  all.push_back(
      app.add_flag("!--no-llm-cache", flags.llm_cache,
                   "Pay language models again for what they answered before"));
  return all;
}

std::string fault_of_address(const std::string& text) {
  if (text.starts_with("ipc:///")) return "";  // on this machine
  const auto colon = text.rfind(':');
  const std::string begin = "tcp://";
  const bool is_in_form =
      text.starts_with(begin) && colon != std::string::npos &&
      colon > begin.size() && colon + 1 < text.size() &&
      text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  // ZeroMQ takes a larger number's lower 16 bits.
  constexpr int kPortMax = 65'535;
  const bool good = is_in_form && std::atoll(&text[colon + 1]) <= kPortMax;
  return good ? "" : "an address is tcp://HOST:PORT, not '" + text + "'";
}

std::vector<CLI::Option*> add_listen(CLI::App& app, ListenFlags& flags) {
  auto* listen = app.add_option("--listen", flags.endpoint,
                                "Let nodes join at tcp://HOST:PORT")
                     ->check(fault_of_address);
  auto* keys = app.add_option("--keys", flags.keys, "Folder of 'weft keygen'")
                   ->needs(listen);
  auto* silence = app.add_option("--node-seconds", flags.silence_s,
                                 "A node that is silent for longer is lost")
                      ->check(number_range(0.5, 86'400.0))
                      ->needs(listen)
                      ->capture_default_str();
  auto* no_local =
      app.add_flag("--no-local", flags.no_local,
                   "Nodes build, check and time; the head captures, and "
                   "checks the whole")
          ->needs(listen);
  return {listen, keys, silence, no_local};
}

void add_classes(CLI::App& app, ListenFlags& flags) {
  app.add_option("--classes", flags.classes,
                 "Device class to check and time on, by a part of its name "
                 "(default: the head's, else the one with most devices)")
      ->needs(app.get_option("--listen"));
}

void add_trust(CLI::App& app, ResumeFlags& flags) {
  auto* trusted = app.add_flag(
      "--trusted", flags.trusted,
      "Believe its journal: the problem runs with your rights, within the "
      "journal's limits (not needed for runs that you began here)");
  app.add_option("--library", flags.library,
                 "The kernel library of a run of another user or machine")
      ->excludes(trusted);
}

CLI::Range event_number() {
  return CLI::Range(std::int64_t{1}, std::int64_t{1} << 62);
}

}  // namespace weft
