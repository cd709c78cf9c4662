#include "runtime/sandbox/sandbox.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "runtime/sandbox/launcher.hpp"
#include "runtime/sandbox/order.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"

namespace weft {
namespace {

Result<void> check(const SandboxRequest& request) {
  if (request.command.empty()) {
    return fail(ErrorCode::wrong_input, "no command for the sandbox");
  }
  std::error_code error;
  if (!request.scratch.is_absolute() ||
      !std::filesystem::is_directory(request.scratch, error)) {
    return fail(ErrorCode::wrong_input,
                "the sandbox's scratch folder must be a folder that exists, "
                "by its full path: '" +
                    request.scratch.string() + "'");
  }
  for (const auto& path : request.readable) {
    if (path.is_absolute() && std::filesystem::exists(path, error)) continue;
    return fail(ErrorCode::wrong_input,
                "cannot show '" + path.string() +
                    "' to the sandbox: it must exist and be a full path");
  }
  return {};
}

/// "word number" or "word text", as the launcher tells it.
Result<SandboxReport> read_status(const std::string& status) {
  using End = SandboxReport::End;
  const auto space = status.find(' ');
  const std::string word = status.substr(0, space);
  const std::string rest =
      space == std::string::npos ? "" : status.substr(space + 1);
  if (word == "failed") return fail(ErrorCode::failed, rest);
  if (word == "missing") return fail(ErrorCode::missing, rest);
  SandboxReport report;
  std::from_chars(rest.data(), rest.data() + rest.size(), report.code);
  if (word == "exited") {
    report.end = End::exited;
  } else if (word == "signalled") {
    report.end = End::signalled;
  } else if (word == "timed_out") {
    report.end = End::timed_out;
  } else if (word == "out_of_memory") {
    report.end = End::out_of_memory;
  } else {
    return fail(ErrorCode::failed,
                "the sandbox's launcher was killed before it could tell how "
                "its command ended; try again");
  }
  return report;
}

}  // namespace

bool is_sandbox_off() {
  const char* mode = std::getenv(kSandboxModeVariable);
  return mode != nullptr && std::string_view(mode) == "none";
}

Result<void> check_has_sandbox(std::string_view what) {
  if (!is_sandbox_off()) return {};
  return fail(ErrorCode::wrong_input,
              std::string(what) +
                  " needs the sandbox, which --sandbox none switches off");
}

Result<SandboxReport> run_sandboxed(const SandboxRequest& request) {
  if (auto good = check(request); !good) return std::unexpected(good.error());
  const auto launcher = find_sandbox_launcher();
  if (!launcher) return std::unexpected(launcher.error());
  const auto start = std::chrono::steady_clock::now();
  auto run = run_launcher(*launcher,
                          {.is_boxed = !is_sandbox_off(), .request = request});
  if (!run) return std::unexpected(run.error());
  const auto wall = std::chrono::steady_clock::now() - start;
  auto report = read_status(run->status);
  if (!report) return report;
  report->out = std::move(run->out);
  report->err = std::move(run->err);
  report->wall_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
  return report;
}

std::vector<std::string> sandbox_prefix(const SandboxRequest& request) {
  SandboxOrder order{.is_boxed = !is_sandbox_off(), .request = request};
  order.request.command.clear();
  order.request.limits.wall_ms = 0;
  auto words = words_of(order);
  // Without a launcher the start fails, and says that this is missing.
  const auto launcher = find_sandbox_launcher();
  words.insert(words.begin(), launcher ? launcher->string() : "weft-sandbox");
  return words;
}

}  // namespace weft
