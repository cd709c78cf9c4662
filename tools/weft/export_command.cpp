#include "tools/weft/export_command.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/export/exports.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/report/run_view.hpp"
#include "runtime/store/run_directory.hpp"

namespace weft {
namespace {

std::string exported(const std::string& form, const Journal& journal,
                     const nlohmann::json& view) {
  if (form == "trace") return trace_export(view);
  if (form == "csv") return csv_export(view);
  if (form == "otlp") return otlp_export(view);
  return pairs_export(journal, view);
}

}  // namespace

int export_command(const CommonFlags& common, const ExportFlags& flags) {
  const auto run = RunDirectory::open(flags.run);
  if (!run) return report_error(common, run.error());
  const auto journal = Journal::open_read_only(run->journal());
  if (!journal) return report_error(common, journal.error());
  const auto view = run_view(*journal);
  if (!view) return report_error(common, view.error());
  const std::string text = exported(flags.form, *journal, *view);
  if (!flags.out) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const auto written = write_file_whole(*flags.out, text);
  return written ? 0 : report_error(common, written.error());
}

}  // namespace weft
