#include "tools/weft/export_command.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/export/exports.hpp"
#include "runtime/export/parquet.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/report/run_view.hpp"
#include "runtime/store/library.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/temporary_folder.hpp"

namespace weft {
namespace {

std::string exported(const ExportFlags& flags, const Journal& journal,
                     const nlohmann::json& view) {
  if (flags.form == "trace") return trace_export(view);
  if (flags.form == "csv") return csv_export(view);
  if (flags.form == "otlp") return otlp_export(view);
  return pairs_export(journal, view, flags.licence);
}

Result<std::string> text_of_run(const ExportFlags& flags) {
  const auto run = RunDirectory::open(flags.run);
  if (!run) return std::unexpected(run.error());
  const auto journal = Journal::open_read_only(run->journal());
  if (!journal) return std::unexpected(journal.error());
  const auto view = run_view(*journal);
  if (!view) return std::unexpected(view.error());
  return exported(flags, *journal, *view);
}

Result<std::string> text_of_library(const ExportFlags& flags) {
  const auto entries = Library(flags.run).entries();
  if (!entries) return std::unexpected(entries.error());
  int left_out = 0;
  std::string text = pairs_of_library(*entries, flags.run.filename().string(),
                                      flags.licence, left_out);
  if (left_out > 0) {
    std::fprintf(stderr,
                 "weft: %d kernels are left out: their signatures cannot be "
                 "read\n",
                 left_out);
  }
  return text;
}

Result<void> write(const CommonFlags& common, const ExportFlags& flags,
                   const std::string& text) {
  if (!flags.out) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }
  if (flags.form != "pairs" || flags.out->extension() != ".parquet") {
    return write_file_whole(*flags.out, text);
  }
  const auto installation = find_installation(common.python);
  if (!installation) return std::unexpected(installation.error());
  const auto folder = TemporaryFolder::make("weft-pairs-");
  if (!folder) return std::unexpected(folder.error());
  const auto lines = folder->path() / "pairs.jsonl";
  if (const auto written = write_file_whole(lines, text); !written)
    return written;
  return write_parquet(installation->python, lines, *flags.out);
}

}  // namespace

int export_command(const CommonFlags& common, const ExportFlags& flags) {
  std::error_code ignored;
  const bool is_library = flags.form == "pairs" &&
                          std::filesystem::is_regular_file(flags.run, ignored);
  const auto text = is_library ? text_of_library(flags) : text_of_run(flags);
  if (!text) return report_error(common, text.error());
  const auto written = write(common, flags, *text);
  return written ? 0 : report_error(common, written.error());
}

}  // namespace weft
