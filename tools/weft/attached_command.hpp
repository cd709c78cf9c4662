// `weft attached`: another command of weft, for as long as somebody waits for
// it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct AttachedFlags {
  std::vector<std::string> words;
  std::optional<std::filesystem::path> remove;
  int niceness = 0;
};

/// The command's own exit code, 130 if it was stopped.
int attached_command(const AttachedFlags& flags);

}  // namespace weft
