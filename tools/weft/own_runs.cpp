#include "tools/weft/own_runs.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "messages/vocabulary.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/store/library.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkMeta = "begun_here";
constexpr std::size_t kKeyBytes = 32;

fs::path key_file() {
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "own-runs.key";
}

/// Of 64 digits; empty: there is none, or it is cut off.
std::string read_key() {
  const fs::path file = key_file();
  if (file.empty()) return {};
  const auto key = read_file(file);
  return key && key->size() == 2 * kKeyBytes ? *key : "";
}

/// Readable by the user alone, and never seen half written: whoever is first
/// to link a name to it has made it.
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
  const int made = open(draft.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (made < 0) return;
  const bool is_whole =
      write(made, key.data(), key.size()) == static_cast<ssize_t>(key.size());
  close(made);
  if (is_whole) {
    [[maybe_unused]] const int done = link(draft.c_str(), file.c_str());
  }
  unlink(draft.c_str());
}

std::string mark_of(const std::string& key, std::string_view body) {
  return content_hash(key + content_hash(body));
}

}  // namespace

void mark_own(Journal& journal, const RunStart& start) {
  std::string key = read_key();
  if (key.empty()) {
    make_key();
    key = read_key();
  }
  if (key.empty()) return;
  [[maybe_unused]] const auto kept =
      journal.set_meta(kMarkMeta, mark_of(key, encode(Message(start))));
}

bool is_own(const Journal& journal) {
  const std::string key = read_key();
  const auto mark = journal.meta(kMarkMeta);
  if (key.empty() || !mark) return false;
  bool is_ours = false;
  const auto read = journal.read(1, [&](const Envelope& first) {
    is_ours = *mark == mark_of(key, first.body);
    return false;
  });
  return read && is_ours;
}

}  // namespace weft
