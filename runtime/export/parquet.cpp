#include "runtime/export/parquet.hpp"

#include <nlohmann/json.hpp>

#include "embedded/runtime/export/write_parquet.py"
#include "messages/parse_json.hpp"
#include "runtime/sandbox/line_process.hpp"

namespace weft {
namespace {

/// A data set of gigabytes, on a slow disk.
constexpr std::int64_t kWriteMs = 600'000;

}  // namespace

Result<void> write_parquet(const std::filesystem::path& python,
                           const std::filesystem::path& lines,
                           const std::filesystem::path& out) {
  auto process =
      LineProcess::start({{python.string(), "-P", "-c",
                           std::string(embedded::runtime_export_write_parquet),
                           lines.string(), out.string()},
                          {},
                          {}});
  if (!process) return std::unexpected(process.error());
  const auto line = process->ask("", kWriteMs);
  if (!line) return std::unexpected(line.error());
  const auto answer = parse_json(*line);
  if (answer.is_object() && answer.contains("rows")) return {};
  if (answer.is_object() && answer.contains("missing")) {
    return fail(
        ErrorCode::missing,
        "this Python has no pyarrow, which writes parquet: " + python.string() +
            " -m pip install pyarrow, or name a file that ends in "
            ".jsonl");
  }
  return fail(ErrorCode::failed,
              "cannot write " + out.string() + ": " +
                  (answer.is_object() ? answer.value("failed", "") : *line));
}

}  // namespace weft
