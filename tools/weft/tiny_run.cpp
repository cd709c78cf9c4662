#include "tools/weft/tiny_run.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "messages/parse_json.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/sandbox/descendants.hpp"
#include "tools/weft/temporary_folder.hpp"

extern char** environ;

namespace weft {
namespace {

namespace fs = std::filesystem;

/// The exit code; what it says goes to the file.
Result<int> run(std::vector<std::string> words, const fs::path& path) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, path.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  const int error = start_child(pid, [&](pid_t* started) {
    return posix_spawn(started, pointers[0], &actions, nullptr, pointers.data(),
                       environ);
  });
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return fail(ErrorCode::missing,
                "cannot start " + words[0] + ": " + std::strerror(error));
  }
  const int status = wait_for_child(pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The last line that a program wrote.
std::string last_line(const fs::path& file) {
  std::ifstream in(file);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

std::string summary_in(const fs::path& run) {
  const auto text = read_file(run / "result.json");
  const auto result = parse_json(text ? *text : "");
  return result.is_object() ? result.value("summary", "") : "";
}

}  // namespace

Result<std::string> run_tiny_problem(const Installation& installation) {
  const auto folder = TemporaryFolder::make("weft-doctor-");
  if (!folder) return std::unexpected(folder.error());
  const fs::path problem =
      installation.worker_path / "weft/problem/tiny_problem.py";
  std::error_code ignored;
  const fs::path out = folder->path() / "run", said = folder->path() / "said";
  std::vector<std::string> words = {
      fs::read_symlink("/proc/self/exe", ignored).string(),
      "run",
      problem.string(),
      "--out",
      out.string(),
      "--variants",
      "1",
      "--jobs",
      "1",
      "--no-library",
      "--no-compile-baseline",
      "--timing-ms",
      "50",
      "--final-timing-ms",
      "100",
      "--quiet",
      "--python",
      installation.python.string()};
  const auto code = run(std::move(words), said);
  if (!code) return std::unexpected(code.error());
  if (*code == 0) return summary_in(out);
  const std::string text = last_line(said);
  return fail(ErrorCode::failed, "exit code " + std::to_string(*code) +
                                     (text.empty() ? "" : ": " + text));
}

}  // namespace weft
