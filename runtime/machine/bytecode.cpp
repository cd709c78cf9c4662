#include "runtime/machine/bytecode.hpp"

#include <chrono>

#include "runtime/machine/files.hpp"
#include "runtime/sandbox/line_process.hpp"
#include "runtime/store/library.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// What the Python side leaves when the folder has everything.
constexpr const char* kDone = "complete";
/// What is left where that failed.
constexpr const char* kFailed = "failed";
constexpr std::chrono::hours kRetryAfter{24};
constexpr std::int64_t kFillMs = 180'000;

/// One folder for each Python, and for each PyTorch that it has had.
std::string folder_name(const Installation& installation) {
  const std::string about =
      installation.python.string() + "\n" + installation.python_version + "\n" +
      installation.torch_version + "\n" + installation.triton_version + "\n" +
      installation.torch_files;
  return content_hash(about).substr(0, 16);
}

bool is_there(const fs::path& file) {
  std::error_code unreadable;
  return fs::exists(file, unreadable);
}

/// A PyTorch that cannot be loaded is not tried again in every run.
bool failed_lately(const fs::path& folder) {
  std::error_code none;
  const auto when = fs::last_write_time(folder / kFailed, none);
  return !none && fs::file_time_type::clock::now() - when < kRetryAfter;
}

Error failure(const fs::path& folder) {
  return {ErrorCode::failed,
          "PyTorch's bytecode could not be made: " + (folder / "log").string() +
              " says why; remove that folder to try again"};
}

Result<void> fill(const Installation& installation, const fs::path& folder) {
  LineCommand command;
  command.words = {installation.python.string(), "-P", "-m",
                   "weft.build.bytecode_fill"};
  command.environment = {{"PYTHONPATH", installation.worker_path.string()},
                         {"PYTHONPYCACHEPREFIX", folder.string()},
                         {"PYTHONDONTWRITEBYTECODE", ""},
                         {"PYTHONOPTIMIZE", ""}};
  command.log = folder / "log";
  auto process = LineProcess::start(command);
  if (!process) return std::unexpected(process.error());
  const auto line = process->ask("", kFillMs);
  if (line && is_there(folder / kDone)) return {};
  [[maybe_unused]] const auto noted = write_file_whole(folder / kFailed, "");
  return std::unexpected(failure(folder));
}

}  // namespace

Result<void> keep_bytecode(Installation& installation,
                           const std::function<void(const std::string&)>& say) {
  if (installation.has_bytecode) return {};
  const fs::path cache = cache_folder();
  if (cache.empty()) {
    return fail(ErrorCode::missing,
                "there is no folder to keep PyTorch's bytecode in: set HOME "
                "or XDG_CACHE_HOME");
  }
  const fs::path folder = cache / "bytecode" / folder_name(installation);
  std::error_code error;
  if (is_there(folder / kDone)) {
    // Those that were used last stay.
    fs::last_write_time(folder / kDone, fs::file_time_type::clock::now(),
                        error);
  } else {
    if (failed_lately(folder)) return std::unexpected(failure(folder));
    fs::create_directories(folder, error);
    if (error) {
      return fail(ErrorCode::failed,
                  "cannot make " + folder.string() +
                      " for PyTorch's bytecode: " + error.message());
    }
    say("this PyTorch came without Python's bytecode: weft makes its own, once "
        "(seconds)");
    if (const auto filled = fill(installation, folder); !filled) return filled;
  }
  installation.bytecode = folder;
  return {};
}

}  // namespace weft
