// report.html: a run's page as a file of its own.
#pragma once

#include <filesystem>

#include "runtime/store/run_directory.hpp"

namespace weft {

/// Reads the run's journal, also while it is written, and writes the page whole
/// or not at all.
Result<void> write_report(const RunDirectory& run,
                          const std::filesystem::path& file);

/// Where a run's own is.
std::filesystem::path report_path(const RunDirectory& run);

}  // namespace weft
