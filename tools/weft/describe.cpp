#include "tools/weft/describe.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "actors/test_writer.hpp"
#include "runtime/machine/files.hpp"
#include "tools/weft/eval_command.hpp"
#include "tools/weft/hosted_run.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/story.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int kTriesMax = 3;
constexpr const char* kProblemName = "described.py";

std::unexpected<int> said(const CommonFlags& common, const Error& error) {
  return std::unexpected(report_error(common, error));
}

/// Budgets are of the whole, reference and kernels.
void take_from_budgets(const fs::path& folder, LlmOptions& options) {
  const auto text = read_file(folder / "spent.json");
  if (!text) return;
  const auto spent = nlohmann::json::parse(*text, nullptr, false);
  if (!spent.is_object()) return;
  const auto take = [&](std::int64_t& left, const char* name) {
    if (left < 0) return;
    left = std::max<std::int64_t>(0, left - spent.value(name, std::int64_t{0}));
  };
  take(options.budget_tokens, "tokens");
  take(options.budget_micro_usd, "micro_usd");
}

/// The journaled run that asks for it; its folder.
std::expected<fs::path, int> ask(const DescribeSite& site,
                                 const RunFlags& flags, const fs::path& folder,
                                 const std::string& description) {
  const CommonFlags& common = site.common;
  const Interrupt interrupt;
  const auto run = create_run(folder, Sync::full);
  if (!run) return said(common, run.error());
  OpenRun& open = **run;
  RunStart start =
      make_start(flags.options, site.machine, site.prompts, open.blobs);
  start.problem_name = kProblemName;
  start.description = open.blobs.put(description);
  Display display(common);
  const ListenFlags alone;
  const auto end = host_start({common, alone, site.installation, site.llm,
                               display, interrupt.token(), false},
                              open, start, test_writer);
  if (!end) return said(common, end.error());
  if (end->kind == HostEnd::Kind::broken) return said(common, end->error);
  if (end->kind == HostEnd::Kind::interrupted) return std::unexpected(130);
  if (end->finished.exit_code != 0) {
    std::fprintf(stderr, "weft: %s\n",
                 for_terminal(end->finished.summary).c_str());
    return std::unexpected(end->finished.exit_code);
  }
  return open.directory.folder();
}

/// Shows the reference, and asks whether that is what was meant.
std::expected<void, int> agree(const CommonFlags& common, const RunFlags& flags,
                               const fs::path& file) {
  const auto text = read_file(file);
  if (!text) return said(common, text.error());
  if (!common.quiet && !common.json) {
    // What is agreed to is what is seen: nothing in it may hide the rest.
    std::printf("The reference (%s):\n\n%s\n", file.c_str(),
                for_terminal(*text).c_str());
    std::fflush(stdout);
  }
  if (flags.yes) return {};
  if (isatty(STDIN_FILENO) == 0) {
    return said(common, {ErrorCode::wrong_input,
                         "nobody is there to say whether " + file.string() +
                             " is what was meant: read it and run it as a "
                             "problem, or say --yes"});
  }
  std::printf("Is this what you mean? [y/N] ");
  std::fflush(stdout);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "yes") return {};
  return said(common, {ErrorCode::wrong_input,
                       "not run: describe it in other words, or change " +
                           file.string() + " and run that"});
}

Result<Judgement> compare(const CommonFlags& common, const RunFlags& flags,
                          const fs::path& folder) {
  EvalFlags eval;
  eval.reference = folder / "problem.py";
  eval.candidates = {folder / "second.py"};
  eval.target = "cpu";
  eval.no_timing = true;
  eval.compile_baseline = false;
  eval.memory_bytes = flags.options.memory_bytes;
  eval.call_ms = flags.options.call_ms;
  return judge(common, eval);
}

}  // namespace

std::expected<fs::path, int> write_problem(const DescribeSite& site,
                                           RunFlags& flags) {
  const CommonFlags& common = site.common;
  const fs::path out = flags.out.value_or(default_run_folder(kProblemName));
  flags.out = out;
  std::string fault;
  for (int number = 1; number <= kTriesMax; ++number) {
    const fs::path folder = out / ("describe-" + std::to_string(number));
    std::string description = flags.describe;
    if (!fault.empty()) {
      description +=
          "\n\n(Two references from these words did not agree: " + fault +
          ". Take the words as exactly as they can be.)";
    }
    const auto asked = ask(site, flags, folder, description);
    if (!asked) return std::unexpected(asked.error());
    take_from_budgets(folder, flags.options.llm);
    const auto agreed = agree(common, flags, folder / "problem.py");
    if (!agreed) return std::unexpected(agreed.error());
    const auto found = compare(common, flags, folder);
    if (!found) return said(common, found.error());
    if (found->accepted) {
      std::error_code error;
      const fs::path problem = out / kProblemName;
      fs::copy_file(folder / "problem.py", problem,
                    fs::copy_options::overwrite_existing, error);
      if (!error) return problem;
      return said(common,
                  {ErrorCode::failed, "cannot write " + problem.string() +
                                          ": " + error.message()});
    }
    fault = found->reason;
    if (!common.quiet) {
      std::fprintf(stderr,
                   "weft: a second, independent reference disagrees: %s\n",
                   fault.c_str());
    }
  }
  return said(common, {ErrorCode::failed,
                       "no two references from that description agree (" +
                           fault + "): say more exactly what is meant"});
}

}  // namespace weft
