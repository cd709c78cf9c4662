#include "messages/untrusted.hpp"

#include <algorithm>
#include <string>

namespace weft {
namespace {

constexpr std::size_t kPathBytesMax = 4000;
constexpr std::size_t kNameBytesMax = 255;

/// The value for a message, which may be shown in a terminal.
std::string quoted(std::string_view text) {
  constexpr std::size_t shown_max = 120;
  std::string out = "'";
  for (const char c : text.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out + (text.size() > shown_max ? "…'" : "'");
}

std::unexpected<Error> refused(std::string_view text, const char* why) {
  return fail(ErrorCode::wrong_input, quoted(text) + " " + why);
}

/// Files of a run that no request writes.
bool is_own_file(std::string_view name) {
  for (const char* stem : {"journal.db", "llm.db"}) {
    if (name.starts_with(stem)) return true;
  }
  return name == "owner.lock";
}

}  // namespace

Result<void> check_file_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") {
    return refused(name, "is no file's name");
  }
  if (name.size() > kNameBytesMax) return refused(name, "is too long a name");
  if (name.find('/') != name.npos || name.find('\0') != name.npos) {
    return refused(name, "is a path, where a file's name is expected");
  }
  return {};
}

Result<void> check_path_inside(std::string_view path) {
  if (path.size() > kPathBytesMax) return refused(path, "is too long a path");
  if (is_own_file(path)) {
    return refused(path, "is a file of weft's own in the run directory");
  }
  for (std::size_t from = 0; from <= path.size();) {
    const auto end = std::min(path.find('/', from), path.size());
    if (!check_file_name(path.substr(from, end - from))) {
      return refused(path, "is not a path inside the run directory");
    }
    from = end + 1;
  }
  return {};
}

}  // namespace weft
