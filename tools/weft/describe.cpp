#include "tools/weft/describe.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/test_writer.hpp"
#include "messages/parse_json.hpp"
#include "messages/shown_text.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/sandbox/sandbox.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/eval_command.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/own_runs.hpp"
#include "tools/weft/run_in_process.hpp"
#include "tools/weft/temporary_folder.hpp"

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
  const auto spent = parse_json(*text);
  if (!spent.is_object()) return;
  const auto take = [&](std::int64_t& left, const char* name) {
    if (left < 0) return;
    left = std::max<std::int64_t>(0, left - spent.value(name, std::int64_t{0}));
  };
  take(options.budget_tokens, "tokens");
  take(options.budget_micro_usd, "micro_usd");
}

/// Empty, or why a reference of the model's is none: the check parses what a
/// stranger wrote, and so runs in the sandbox, as the reference does.
Result<std::string> fault_of(const DescribeSite& site, const fs::path& folder) {
  auto box = TemporaryFolder::make("weft-describe-");
  if (!box) return std::unexpected(box.error());
  SandboxRequest request;
  request.scratch = box->path();
  request.readable = python_readable(site.installation);
  request.environment = python_environment(site.installation);
  request.command = {site.installation.python.string(), "-P", "-m",
                     "weft.problem.plain_reference"};
  for (const char* name : {"problem.py", "second.py"}) {
    const auto text = read_file(folder / name);
    if (!text) return std::unexpected(text.error());
    const auto copied = write_file_whole(box->path() / name, *text);
    if (!copied) return std::unexpected(copied.error());
    request.command.push_back((box->path() / name).string());
  }
  const auto report = run_sandboxed(request);
  if (!report) return std::unexpected(report.error());
  std::istringstream lines(report->out);
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    const auto value = parse_json(line);
    const auto fault = value.is_object() ? value.find("fault") : value.end();
    if (fault == value.end() || !fault->is_string()) break;
    if (!fault->get<std::string>().empty()) return fault->get<std::string>();
  }
  return count == 2 ? "" : "the file cannot be parsed";
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
  mark_own(open.journal, start);
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
                 terminal_paragraph(end->finished.summary).c_str());
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
    std::printf("The reference (%s):\n\n%s\n",
                terminal_line(file.string()).c_str(),
                terminal_listing(*text).c_str());
    std::fflush(stdout);
  }
  if (flags.yes) return {};
  if (isatty(STDIN_FILENO) == 0) {
    return said(common, {ErrorCode::wrong_input,
                         "no terminal to ask whether " + file.string() +
                             " is what you mean: read the file and run it as "
                             "a problem, or pass --yes"});
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
  eval.untrusted_problem = true;
  return judge(common, eval);
}

}  // namespace

std::expected<fs::path, int> write_problem(const DescribeSite& site,
                                           RunFlags& flags) {
  const CommonFlags& common = site.common;
  const fs::path out = flags.out.value_or(default_run_folder(kProblemName));
  flags.out = out;
  std::string fault;
  std::string remark;
  for (int number = 1; number <= kTriesMax; ++number) {
    const fs::path folder = out / ("describe-" + std::to_string(number));
    const std::string description = flags.describe + remark;
    const auto asked = ask(site, flags, folder, description);
    if (!asked) return std::unexpected(asked.error());
    take_from_budgets(folder, flags.options.llm);
    const auto foreign = fault_of(site, folder);
    if (!foreign) return said(common, foreign.error());
    if (!foreign->empty()) {
      fault = *foreign;
      remark = "\n\n(The last reference could not be used: " + fault + ".)";
      if (!common.quiet) {
        std::fprintf(stderr, "weft: the reference is not used: %s\n",
                     terminal_line(fault).c_str());
      }
      continue;
    }
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
    fault = "two references do not agree: " + found->reason;
    remark =
        "\n\n(Two references from these words did not agree: " + found->reason +
        ". Take the words as exactly as they can be.)";
    if (!common.quiet) {
      std::fprintf(stderr,
                   "weft: a second, independent reference disagrees: %s\n",
                   terminal_line(found->reason).c_str());
    }
  }
  return said(common, {ErrorCode::failed,
                       "no reference from that description can be used (" +
                           fault + "): say more exactly what is meant"});
}

}  // namespace weft
