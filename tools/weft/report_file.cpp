#include "tools/weft/report_file.hpp"

#include <nlohmann/json.hpp>

#include "runtime/journal/journal.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/report/report_page.hpp"
#include "runtime/report/run_view.hpp"

namespace weft {

std::filesystem::path report_path(const RunDirectory& run) {
  return run.folder() / "report.html";
}

Result<void> write_report(const RunDirectory& run,
                          const std::filesystem::path& file) {
  const auto journal = Journal::open_read_only(run.journal());
  if (!journal) return std::unexpected(journal.error());
  auto view = run_view(*journal);
  if (!view) return std::unexpected(view.error());
  (*view)["run_folder"] = run.folder().string();
  const auto page = report_page(*journal, *view);
  if (!page) return std::unexpected(page.error());
  return write_file_whole(file, *page);
}

}  // namespace weft
