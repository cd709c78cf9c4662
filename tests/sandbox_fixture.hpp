// What the sandbox's tests share: a folder that goes away, short limits, and a
// look at which processes are left.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/sandbox/sandbox.hpp"

namespace weft {

struct TestFolder {
  std::filesystem::path path;
  explicit TestFolder(const std::filesystem::path& parent =
                          std::filesystem::temp_directory_path()) {
    std::string name = parent / "weft-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();  // unlike iterators, no throw if a process just ended
  return text.str();
}

inline void write_file(const std::filesystem::path& path,
                       const std::string& text) {
  std::ofstream(path) << text;
}

inline SandboxRequest quick_request(const std::filesystem::path& scratch,
                                    std::vector<std::string> command) {
  SandboxRequest request;
  request.command = std::move(command);
  request.scratch = scratch;
  request.limits.wall_ms = 20'000;
  request.limits.memory_bytes = std::int64_t{1} << 30;
  return request;
}

inline SandboxReport run_well(const SandboxRequest& request) {
  auto report = run_sandboxed(request);
  REQUIRE_MESSAGE(report.has_value(), report.error().message);
  return *report;
}

/// Living processes, anywhere on the machine, with `mark` among their words.
inline int processes_with(const std::string& mark) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::isdigit(static_cast<unsigned char>(name[0]))) continue;
    if (name == std::to_string(getpid())) continue;
    if (file_text(entry.path() / "cmdline").find(mark) != std::string::npos) {
      ++found;
    }
  }
  return found;
}

/// Words for a command line that no other process has.
inline std::string unique_mark(const std::string& what) {
  return "weft-" + what + "-" + std::to_string(getpid());
}

}  // namespace weft
