#include "runtime/bytecode.hpp"

#include "runtime/journal.hpp"
#include "runtime/library.hpp"
#include "runtime/line_process.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// What the Python side leaves when the folder has everything.
constexpr const char* done = "complete";
constexpr std::int64_t fill_ms = 300'000;

/// One folder for each Python, and for each PyTorch that it has had.
std::string folder_name(const Installation& installation) {
  const std::string about =
      installation.python.string() + "\n" + installation.python_version + "\n" +
      installation.torch_version + "\n" + installation.triton_version;
  return content_hash(about).substr(0, 16);
}

Result<void> fill(const Installation& installation, const fs::path& folder) {
  LineCommand command;
  command.words = {installation.python.string(), "-P", "-m",
                   "weft_worker.bytecode"};
  command.environment = {{"PYTHONPATH", installation.worker_path.string()},
                         {"PYTHONPYCACHEPREFIX", folder.string()},
                         {"PYTHONDONTWRITEBYTECODE", ""}};
  command.log = folder / "log";
  auto process = LineProcess::start(command);
  if (!process) return std::unexpected(process.error());
  const auto line = process->ask("", fill_ms);
  if (line && fs::exists(folder / done)) return {};
  return fail(ErrorCode::failed, "loading PyTorch for its bytecode failed: " +
                                     command.log.string() + " says why");
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
  if (!fs::exists(folder / done)) {
    std::error_code error;
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
