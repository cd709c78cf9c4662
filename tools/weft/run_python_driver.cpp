#include "tools/weft/run_python_driver.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/store/run_directory.hpp"
#include "tools/weft/python_driver.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

using Words = std::vector<std::string>;

/// All that a driver starts read the same settings and use the same Python.
Words words_for_all(const CommonFlags& common) {
  Words words;
  if (common.python) words.insert(words.end(), {"--python", *common.python});
  if (common.config) {
    words.insert(words.end(),
                 {"--config", fs::absolute(*common.config).string()});
  }
  return words;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A driver's standard output is its own: runs say what they do elsewhere.
Words words_for_runs(const CommonFlags& common) {
  Words words = words_for_all(common);
  if (common.verbose) words.emplace_back("--verbose");
  if (common.quiet || common.json) words.emplace_back("--quiet");
  return words;
}

/// What `weft eval` has to know of a run to judge as it does.
Words words_for_judging(const CommonFlags& common, const RunFlags& flags) {
  const RunOptions& options = flags.options;
  const double gib =
      static_cast<double>(options.memory_bytes) / (std::int64_t{1} << 30);
  Words words = {"--precision",  options.precision,
                 "--device",     std::to_string(options.device),
                 "--call-ms",    std::to_string(options.call_ms),
                 "--memory-gib", std::to_string(gib)};
  if (options.final_timing_ms > 0) {
    words.emplace_back("--timing-ms");
    words.push_back(std::to_string(options.final_timing_ms));
  } else {
    words.emplace_back("--no-timing");
  }
  if (flags.untrusted_problem) words.emplace_back("--untrusted-problem");
  if (!options.compile_baseline) words.emplace_back("--no-compile-baseline");
  return with(std::move(words), words_for_all(common));
}

json settings(const CommonFlags& common, const RunFlags& flags) {
  std::error_code ignored;
  const RunOptions& options = flags.options;
  const fs::path out = flags.out.value_or(default_run_folder(flags.problem));
  return {{"weft", fs::read_symlink("/proc/self/exe", ignored).string()},
          {"problem", fs::absolute(flags.problem).lexically_normal().string()},
          {"out", fs::absolute(out).lexically_normal().string()},
          {"mode", options.mode},
          {"target", options.target},
          {"device", options.device},
          {"budget_s", static_cast<double>(options.budget_ms) / 1000},
          {"with_compile", options.compile_baseline},
          {"run_flags", with(flags.words, words_for_runs(common))},
          {"resume_flags", words_for_runs(common)},
          {"judge_flags", words_for_judging(common, flags)},
          {"json", common.json},
          {"quiet", common.quiet || common.json}};
}

}  // namespace

int run_python_driver(const CommonFlags& common, const RunFlags& flags,
                      const char* driver) {
  std::error_code ignored;
  if (!fs::exists(flags.problem, ignored)) {
    return report_error(common, {ErrorCode::wrong_input,
                                 "no such file: " + flags.problem.string()});
  }
  const auto installation = ready_installation(common);
  if (!installation) return report_error(common, installation.error());
  return report_error(
      common, become_python(*installation, driver, settings(common, flags)));
}

Result<void> check_one_mode(const RunOptions& options) {
  if (options.mode != kBothModes) return {};
  return fail(ErrorCode::wrong_input,
              "--mode both is two runs ('weft run' and 'weft bench' make "
              "them), and this takes one: name eval or train");
}

}  // namespace weft
