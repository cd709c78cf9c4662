#include "tools/weft/driven_run.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/store/run_directory.hpp"
#include "tools/weft/python_driver.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// All of them read the same settings and use the same Python.
std::vector<std::string> words_for_runs(const CommonFlags& common,
                                        const RunFlags& flags) {
  std::vector<std::string> words = flags.words;
  if (common.python) words.insert(words.end(), {"--python", *common.python});
  if (common.config) {
    words.insert(words.end(),
                 {"--config", fs::absolute(*common.config).string()});
  }
  if (common.verbose) words.push_back("--verbose");
  if (common.quiet || common.json) words.push_back("--quiet");
  return words;
}

json settings(const CommonFlags& common, const RunFlags& flags) {
  std::error_code ignored;
  const RunOptions& options = flags.options;
  const fs::path out = flags.out.value_or(default_run_folder(flags.problem));
  return {{"weft", fs::read_symlink("/proc/self/exe", ignored).string()},
          {"problem", fs::absolute(flags.problem).lexically_normal().string()},
          {"out", fs::absolute(out).lexically_normal().string()},
          {"mode", options.mode},
          {"precision", options.precision},
          {"target", options.target},
          {"device", options.device},
          {"budget_s", static_cast<double>(options.budget_ms) / 1000},
          {"timing_s", static_cast<double>(options.final_timing_ms) / 1000},
          {"with_compile", options.compile_baseline},
          {"run_flags", words_for_runs(common, flags)},
          {"json", common.json},
          {"quiet", common.quiet || common.json}};
}

}  // namespace

int driven_run(const CommonFlags& common, const RunFlags& flags,
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
