#include "runtime/machine/toolchain.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "runtime/machine/files.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Changes with every new version, as packagers replace the file.
std::string file_identity(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  const auto size = fs::file_size(real, error);
  const auto time = fs::last_write_time(real, error).time_since_epoch().count();
  return real.string() + " " + std::to_string(size) + " " +
         std::to_string(time);
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string facts;
  for (std::string line; std::getline(in, line) && !line.empty();) {
    for (const char* field : {"model name", "flags", "Features"}) {
      if (line.starts_with(field)) facts += line + "\n";
    }
  }
  return facts;
}

}  // namespace

std::string python_identity(const Installation& installation) {
  std::error_code error;
  std::vector<fs::path> files;
  const fs::path folder = installation.worker_path / "weft";
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() == ".py") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::string text =
      installation.python_version + " " + installation.torch_version + " " +
      installation.triton_version + " " + installation.nvrtc + "\n";
  for (const fs::path& file : files) {
    text += file.lexically_relative(folder).string() + "\n" +
            read_file(file).value_or("");
  }
  return content_hash(text);
}

std::string compiler_identity() {
  // Behind one file, as ccache's, may stand several compilers.
  const fs::path compiler = find_compiler();
  return content_hash(compiler.string() + " " + compiler_version() + " " +
                      file_identity(compiler) + "\n" + processor());
}

}  // namespace weft
