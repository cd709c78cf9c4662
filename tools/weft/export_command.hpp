// weft export: a run in the forms of other tools.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tools/weft/commands.hpp"

namespace weft {

struct ExportFlags {
  std::string form;           ///< "trace", "csv", "otlp", "pairs"
  std::filesystem::path run;  ///< of "pairs": or a kernel library's file
  std::optional<std::filesystem::path> out;  ///< nullopt: standard output
  std::string licence;  ///< of "pairs": all of them; empty: as they say
};

int export_command(const CommonFlags& common, const ExportFlags& flags);

}  // namespace weft
