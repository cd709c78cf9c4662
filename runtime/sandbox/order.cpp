#include "runtime/sandbox/order.hpp"

#include <charconv>
#include <string_view>

namespace weft {
namespace {

using Limit = std::int64_t SandboxLimits::*;

struct NamedLimit {
  std::string_view flag;
  Limit limit;
};

constexpr NamedLimit kLimits[] = {
    {"--wall-ms", &SandboxLimits::wall_ms},
    {"--cpu-s", &SandboxLimits::cpu_s},
    {"--memory-bytes", &SandboxLimits::memory_bytes},
    {"--file-bytes", &SandboxLimits::file_bytes},
    {"--scratch-bytes", &SandboxLimits::scratch_bytes},
};

bool read_number(std::string_view text, std::int64_t& number) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool read_limit(std::string_view flag, std::string_view value,
                SandboxOrder& order) {
  std::int64_t number = 0;
  if (!read_number(value, number)) return false;
  for (const NamedLimit& known : kLimits) {
    if (flag != known.flag) continue;
    order.request.limits.*known.limit = number;
    return true;
  }
  if (flag == "--processes") {
    order.request.limits.processes = static_cast<int>(number);
  } else if (flag == "--nice") {
    order.request.limits.niceness = static_cast<int>(number);
  } else if (flag == "--status-fd") {
    order.status_fd = static_cast<int>(number);
  } else if (flag == "--uid") {
    order.uid = number;
  } else {
    return false;
  }
  return true;
}

bool read_flag(std::string_view flag, std::string_view value,
               SandboxOrder& order) {
  SandboxRequest& request = order.request;
  if (flag == "--scratch") {
    request.scratch = value;
  } else if (flag == "--read") {
    request.readable.emplace_back(value);
  } else if (flag == "--env") {
    const auto equals = value.find('=');
    if (equals == std::string_view::npos) return false;
    request.environment.emplace_back(value.substr(0, equals),
                                     value.substr(equals + 1));
  } else {
    return read_limit(flag, value, order);
  }
  return true;
}

}  // namespace

std::vector<std::string> words_of(const SandboxOrder& order) {
  const SandboxRequest& request = order.request;
  std::vector<std::string> words;
  auto say = [&words](std::string_view flag, std::string value) {
    words.emplace_back(flag);
    words.push_back(std::move(value));
  };
  if (order.step == SandboxOrder::Step::inside) words.push_back("--inside");
  if (order.step == SandboxOrder::Step::self_test) {
    words.push_back("--self-test");
  }
  if (!order.is_boxed) words.push_back("--unboxed");
  if (request.gpu) words.push_back("--gpu");
  if (!request.scratch.empty()) say("--scratch", request.scratch);
  for (const auto& path : request.readable) say("--read", path);
  for (const auto& [name, value] : request.environment) {
    say("--env", name + "=" + value);
  }
  for (const NamedLimit& known : kLimits) {
    say(known.flag, std::to_string(request.limits.*known.limit));
  }
  say("--processes", std::to_string(request.limits.processes));
  say("--nice", std::to_string(request.limits.niceness));
  if (order.status_fd >= 0) {
    say("--status-fd", std::to_string(order.status_fd));
  }
  if (order.uid >= 0) say("--uid", std::to_string(order.uid));
  words.push_back("--");
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

Result<SandboxOrder> read_order(std::span<char* const> words) {
  SandboxOrder order;
  std::size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string_view flag = words[at];
    if (flag == "--") break;
    if (flag == "--inside") {
      order.step = SandboxOrder::Step::inside;
    } else if (flag == "--self-test") {
      order.step = SandboxOrder::Step::self_test;
    } else if (flag == "--unboxed") {
      order.is_boxed = false;
    } else if (flag == "--gpu") {
      order.request.gpu = true;
    } else if (at + 1 == words.size() ||
               !read_flag(flag, words[at + 1], order)) {
      return fail(
          ErrorCode::wrong_input,
          "weft-sandbox: cannot read '" + std::string(flag) +
              "': it is started by weft, see docs/explanation/security.md");
    } else {
      ++at;
    }
  }
  for (++at; at < words.size(); ++at) {
    order.request.command.emplace_back(words[at]);
  }
  return order;
}

}  // namespace weft
