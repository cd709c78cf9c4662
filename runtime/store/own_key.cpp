#include "runtime/store/own_key.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "runtime/store/library.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyBytes = 32;

fs::path key_file() {
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "own-runs.key";
}

/// 64 hexadecimal digits; empty: there is no key, or it is cut off.
std::string read_key() {
  const fs::path file = key_file();
  if (file.empty()) return {};
  std::ifstream in(file, std::ios::binary);
  std::string key(2 * kKeyBytes + 1, '\0');
  in.read(key.data(), std::ssize(key));
  key.resize(static_cast<std::size_t>(in.gcount()));
  return key.size() == 2 * kKeyBytes ? key : "";
}

/// The key is readable by the user alone. Other processes never see it half
/// written: it gets its name only when it is whole, and the first name stays.
void make_key() {
  const fs::path file = key_file();
  if (file.empty()) return;
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  std::array<char, kKeyBytes> random{};
  if (getrandom(random.data(), random.size(), 0) !=
      static_cast<ssize_t>(random.size())) {
    return;
  }
  const std::string key = to_hex({random.data(), random.size()});
  const std::string draft = file.string() + "." + std::to_string(getpid());
  constexpr mode_t kOwnerOnly = 0600;
  const int made =
      open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (made < 0) return;
  const bool is_whole =
      write(made, key.data(), key.size()) == static_cast<ssize_t>(key.size());
  close(made);
  if (is_whole) {
    [[maybe_unused]] const int done = link(draft.c_str(), file.c_str());
  }
  unlink(draft.c_str());
}

}  // namespace

std::string own_key() {
  std::string key = read_key();
  if (key.empty()) {
    make_key();
    key = read_key();
  }
  return key;
}

std::string own_mark(std::string_view bytes) {
  const std::string key = own_key();
  return key.empty() ? "" : content_hash(key + content_hash(bytes));
}

}  // namespace weft
