#include "messages/untrusted.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <msgpack.hpp>
#include <string>
#include <utility>

namespace weft {
namespace {

constexpr std::size_t kPathBytesMax = 4000;
constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kHashLength = 64;
constexpr int kNestingMax = 256;
constexpr std::int64_t kKib = 1024;
constexpr std::int64_t kTib = kKib * kKib * kKib * kKib;
constexpr int kCoresMax = 1 << 14;
constexpr int kListMax = 1024;
constexpr std::int64_t kYearMs = std::int64_t{366} * 24 * 3600 * 1000;

/// The value for a message, which may be shown in a terminal.
std::string quoted(std::string_view text) {
  constexpr std::size_t shown_max = 120;
  std::string out = "'";
  for (const char c : text.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out + (text.size() > shown_max ? "…'" : "'");
}

std::unexpected<Error> refused(std::string_view text, const char* why) {
  return fail(ErrorCode::wrong_input, quoted(text) + " " + why);
}

/// Files of a run that no request writes.
bool is_own_file(std::string_view name) {
  for (const char* stem : {"journal.db", "llm.db"}) {
    if (name.starts_with(stem)) return true;
  }
  return name == "owner.lock";
}

}  // namespace

Result<void> check_file_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") {
    return refused(name, "is no file's name");
  }
  if (name.size() > kNameBytesMax) return refused(name, "is too long a name");
  if (name.find('/') != name.npos || name.find('\0') != name.npos) {
    return refused(name, "is a path, where a file's name is expected");
  }
  return {};
}

Result<void> check_path_inside(std::string_view path) {
  if (path.size() > kPathBytesMax) return refused(path, "is too long a path");
  if (is_own_file(path)) {
    return refused(path, "is a file of weft's own in the run directory");
  }
  for (std::size_t from = 0; from <= path.size();) {
    const auto end = std::min(path.find('/', from), path.size());
    if (!check_file_name(path.substr(from, end - from))) {
      return refused(path, "is not a path inside the run directory");
    }
    from = end + 1;
  }
  return {};
}

Result<void> check_hash(std::string_view hash) {
  const bool is_hex = std::ranges::all_of(hash, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (is_hex && hash.size() == kHashLength) return {};
  return refused(hash, "is no content hash");
}

Result<void> check_range(std::string_view what, std::int64_t value,
                         std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return fail(ErrorCode::wrong_input,
              std::string(what) + " is " + std::to_string(value) +
                  ", which is not between " + std::to_string(least) + " and " +
                  std::to_string(most));
}

bool is_shallow_json(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      in_text = !in_text;
    } else if (in_text) {
      if (c == '\\') ++at;  // what follows ends no text
    } else if (c == '[' || c == '{') {
      if (++depth > kNestingMax) return false;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return true;
}

bool is_shallow_msgpack(std::string_view bytes) {
  const std::size_t size = bytes.size();
  try {
    std::size_t offset = 0;
    msgpack::object_handle value;
    msgpack::unpack(value, bytes.data(), size, offset, nullptr, nullptr,
                    {size, size, size, size, size, kNestingMax});
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Result<void> check_machine(const Machine& machine) {
  const struct {
    const char* what;
    std::int64_t value, least, most;
  } numbers[] = {
      {"cores", machine.cores, 1, kCoresMax},
      {"vector_bytes", machine.vector_bytes, 1, 4096},
      {"l1_bytes", machine.l1_bytes, 0, kTib},
      {"l2_bytes", machine.l2_bytes, 0, kTib},
      {"l3_bytes", machine.l3_bytes, 0, kTib},
      {"the number of GPUs", std::ssize(machine.gpus), 0, kListMax},
  };
  for (const auto& number : numbers) {
    const auto good =
        check_range(number.what, number.value, number.least, number.most);
    if (!good) return good;
  }
  for (const Gpu& gpu : machine.gpus) {
    if (const auto good = check_gpu(gpu); !good) return good;
  }
  return {};
}

Result<void> check_gpu(const Gpu& gpu) {
  const struct {
    const char* what;
    std::int64_t value, most;
  } numbers[] = {
      {"sms", gpu.sms, kCoresMax},
      {"memory_bytes", gpu.memory_bytes, 64 * kTib},
      {"l2_bytes", gpu.l2_bytes, kTib},
      {"shared_bytes", gpu.shared_bytes, kTib},
      {"resident_threads", gpu.resident_threads, 1 << 20},
  };
  for (const auto& number : numbers) {
    const auto good = check_range(number.what, number.value, 0, number.most);
    if (!good) return good;
  }
  return {};
}

Result<void> check_start(const RunStart& start) {
  if (const auto machine = check_machine(start.machine); !machine) {
    return machine;
  }
  const RunOptions& options = start.options;
  if (!start.problem_name.empty()) {
    if (const auto name = check_file_name(start.problem_name); !name) {
      return name;
    }
  }
  const struct {
    const char* what;
    std::int64_t value, least, most;
  } numbers[] = {
      {"jobs", options.jobs, 1, 256},
      {"variants_max", options.variants_max, 0, 100'000},
      {"capture_ms", options.capture_ms, 1, kYearMs},
      {"call_ms", options.call_ms, 1, kYearMs},
      {"memory_bytes", options.memory_bytes, kKib * kKib, 64 * kTib},
      {"timing_ms", options.timing_ms, 0, kYearMs},
      {"final_timing_ms", options.final_timing_ms, 0, kYearMs},
      {"device", options.device, 0, kListMax},
      {"budget_ms", options.budget_ms, 0, 100 * kYearMs},
      {"the number of seed generators", std::ssize(options.seeds), 0, kListMax},
      {"the number of devices", std::ssize(options.devices), 0, kListMax},
      {"the number of choices", std::ssize(options.choices), 0, 100'000},
      {"the number of dimensions", std::ssize(options.dynamic_more), 0,
       kListMax},
      {"head_cores", start.head_cores, 0, kCoresMax},
      {"node_wait_ms", start.node_wait_ms, 0, kYearMs},
      {"the number of capabilities", std::ssize(start.head_can), 0, kListMax},
      {"vocabulary", start.vocabulary, 1, 1'000'000},
  };
  for (const auto& number : numbers) {
    const auto good =
        check_range(number.what, number.value, number.least, number.most);
    if (!good) return good;
  }
  for (const auto& [name, value] : options.choices) {
    if (!std::isfinite(value)) return refused(name, "is no finite number");
  }
  return {};
}

}  // namespace weft
