#include "tools/weft/run_settings.hpp"

#include <random>
#include <string>
#include <system_error>

#include "runtime/machine/files.hpp"
#include "runtime/store/library.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Of the journal: a number that nobody can guess who has not seen the run.
constexpr const char* kIdentityMeta = "identity";

fs::path kept_at(const std::string& identity) {
  const fs::path folder = cache_folder();
  if (folder.empty() || identity.empty()) return {};
  return folder / "run-settings" / content_hash(identity);
}

std::string new_identity() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 4; ++i) text += std::to_string(device()) + "-";
  return text;
}

}  // namespace

void remember_settings(Journal& journal, const std::optional<fs::path>& named) {
  if (!named) return;
  std::error_code error;
  const fs::path file = fs::absolute(*named, error);
  const std::string identity = new_identity();
  const fs::path settings_path = kept_at(identity);
  if (error || settings_path.empty()) return;
  fs::create_directories(settings_path.parent_path(), error);
  if (error || !journal.set_meta(kIdentityMeta, identity)) return;
  [[maybe_unused]] const auto written =
      write_file_whole(settings_path, file.string());
}

std::optional<fs::path> remembered_settings(const Journal& journal) {
  const fs::path settings_path =
      kept_at(journal.meta(kIdentityMeta).value_or(""));
  if (settings_path.empty()) return std::nullopt;
  const auto text = read_file(settings_path);
  std::error_code error;
  if (!text || !fs::exists(*text, error)) return std::nullopt;
  return fs::path(*text);
}

}  // namespace weft
