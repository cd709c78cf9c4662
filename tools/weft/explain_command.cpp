#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/plan_receiver.hpp"
#include "messages/shown_text.hpp"
#include "runtime/debug/explanation.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/run_python_driver.hpp"
#include "tools/weft/temporary_folder.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

int explain_run(const CommonFlags& common, const fs::path& folder) {
  const auto run = RunDirectory::open(folder);
  if (!run) return report_error(common, run.error());
  const auto journal = Journal::open_read_only(run->journal());
  if (!journal) return report_error(common, journal.error());
  if (const auto sound = journal->verify(); !sound) {
    return report_error(common, sound.error());
  }
  const auto explanation = explain(*journal, &make_role_to_partition);
  if (!explanation) return report_error(common, explanation.error());
  if (common.json) {
    print_line(explanation_json(*explanation));
  } else {
    const std::string text = explanation_text(*explanation, common.verbose);
    std::printf("%s", terminal_listing(text).c_str());
  }
  return 0;
}

}  // namespace

int explain_command(const CommonFlags& common, const RunFlags& given) {
  std::error_code ignored;
  if (fs::is_directory(given.problem, ignored)) {
    return explain_run(common, given.problem);
  }
  if (const auto one = check_one_mode(given.options); !one) {
    return report_error(common, one.error());
  }
  const auto folder = TemporaryFolder::make("weft-explain-");
  if (!folder) return report_error(common, folder.error());
  RunFlags flags = given;
  flags.out = folder->path() / "run";
  flags.only_partition = true;
  const int code = run_command(common, flags);
  return code == 0 ? explain_run(common, *flags.out) : code;
}

}  // namespace weft
