#include "tools/weft/node_command.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "messages/parse_json.hpp"
#include "messages/shown_text.hpp"
#include "runtime/bus/membership.hpp"
#include "runtime/bus/node.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/ports/node_ports.hpp"
#include "tools/weft/end_of_program.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The host's name, as far as it is one for a node.
std::string host_name() {
  char text[256] = "";
  gethostname(text, sizeof text - 1);
  std::string name = std::string(text).substr(0, wire::kNameBytesMax);
  std::ranges::replace_if(
      name, [](char c) { return !wire::is_name(std::string(1, c)); }, '-');
  return name.empty() ? "node" : name;
}

fs::path default_folder(const std::string& name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path base = cache && *cache ? fs::path(cache)
                        : home && *home ? fs::path(home) / ".cache"
                                        : fs::temp_directory_path();
  return base / "weft" / "nodes" / name;
}

Result<void> read_slots(const std::vector<std::string>& words,
                        wire::Hello& hello) {
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    int units = 0;
    const bool good = equals != std::string::npos &&
                      word.substr(0, equals) == "cpu" &&
                      (units = std::atoi(word.c_str() + equals + 1)) > 0;
    if (!good) {
      return fail(ErrorCode::wrong_input,
                  "--slots takes cpu=N with N at least 1, not '" + word + "'");
    }
    hello.slots["cpu"] = std::min(units, hello.machine.cores);
  }
  return {};
}

Result<wire::Hello> show_self(const NodeFlags& flags,
                              const Installation& installation) {
  wire::Hello hello =
      make_hello(installation, weft_version(), flags.devices == "all");
  hello.name = flags.name.empty() ? host_name() : flags.name;
  if (!wire::is_name(hello.name)) {
    return fail(ErrorCode::wrong_input,
                "a node's name is up to 64 letters, digits, '.', '_' and '-', "
                "not '" +
                    hello.name + "'");
  }
  hello.only = flags.only;
  if (const auto read = read_slots(flags.slots, hello); !read) {
    return std::unexpected(read.error());
  }
  return hello;
}

/// The process's own claim on the folder, for as long as it lives.
Result<void> claim(const fs::path& folder) {
  const fs::path file = folder / "node.lock";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return fail(ErrorCode::missing,
                "cannot write " + file.string() + ": " + std::strerror(errno));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return {};
  return fail(ErrorCode::wrong_input,
              "another node uses " + folder.string() +
                  ": give this one another name with --name");
}

Result<BusKeys> keys_for(const NodeFlags& flags) {
  if (flags.keys) return read_node_keys(*flags.keys);
  if (is_loopback(flags.join)) return BusKeys();
  return fail(ErrorCode::wrong_input,
              flags.join +
                  " is another machine: name the folder with this "
                  "node's keys with --keys DIR ('weft keygen DIR' "
                  "made it)");
}

/// Who is told to go and cannot is ended: it takes five seconds to hand back
/// work, and schedulers kill after thirty.
class LastWord {
 public:
  explicit LastWord(const std::stop_token& answer)
      : on_told_(answer, [this] { tell(); }),
        thread_([this](const std::stop_token& gone) { watch(gone); }) {}

 private:
  void tell() {
    const std::lock_guard lock(mutex_);
    is_told_ = true;
    changed_.notify_all();
  }
  void watch(const std::stop_token& gone) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, gone, [this] { return is_told_; })) return;
    changed_.wait_for(lock, gone, std::chrono::seconds(20),
                      [] { return false; });
    if (gone.stop_requested()) return;
    std::fprintf(stderr, "weft node: its work does not stop: killed\n");
    end_all_started(0, 3'000);
    _exit(143);
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_told_ = false;
  std::stop_callback<std::function<void()>> on_told_;
  std::jthread thread_;
};

/// As a log line; standard error may be a file.
void say(const CommonFlags& common, const std::string& text) {
  if (!common.quiet)
    std::fprintf(stderr, "weft node: %s\n", terminal_paragraph(text).c_str());
}

std::string row(const json& node) {
  std::string devices;
  for (const json& device : node.at("devices")) {
    devices += (devices.empty() ? "" : ", ") + device.value("name", "") + " " +
               device.value("uuid", "");
  }
  const std::string why = node.value("why", "");
  char text[1024];
  std::snprintf(text, sizeof text,
                "%-20s %-12s %4d cores  %3d at work %4d done"
                "  can %s; torch %s%s%s%s%s",
                node.value("name", "").c_str(), node.value("state", "").c_str(),
                node.value("cores", 0), node.value("working", 0),
                node.value("answered", 0), node.value("can", "").c_str(),
                node.value("torch", "").c_str(), devices.empty() ? "" : "  ",
                devices.c_str(), why.empty() ? "" : "  because ", why.c_str());
  return text;
}

}  // namespace

int node_command(const CommonFlags& common, const NodeFlags& flags) {
  const Interrupt interrupt;
  auto keys = keys_for(flags);
  if (!keys) return report_error(common, keys.error());
  const auto installation = ready_installation(common, false);
  if (!installation) return report_error(common, installation.error());
  if (installation->torch_version.empty()) {
    say(common, installation->python.string() +
                    " has no PyTorch: this node can only build");
  }
  auto hello = show_self(flags, *installation);
  if (!hello) return report_error(common, hello.error());
  const auto folder =
      RunDirectory::create(flags.folder.value_or(default_folder(hello->name)));
  if (!folder) return report_error(common, folder.error());
  if (const auto claimed = claim(folder->folder()); !claimed) {
    return report_error(common, claimed.error());
  }
  auto scratch = Scratch::make(*folder);
  if (!scratch) return report_error(common, scratch.error());
  const auto why_unfit = [&]() -> std::string {
    const std::string why = no_space_reason(*folder, *scratch);
    return why.empty() ? "" : why + ": make room, or name another --folder";
  };
  if (const std::string why = why_unfit(); !why.empty()) {
    return report_error(common, {ErrorCode::missing, why});
  }
  if (!hello->devices.empty()) {
    for (const std::string& why :
         measure_devices(*hello, *installation, list_gpus())) {
      say(common, "a GPU could not be measured: " + why +
                      "; kernels are chosen for it by the run's own");
    }
  }
  NodeOptions options;
  options.endpoint = flags.join;
  options.keys = std::move(*keys);
  options.protocol.hello = *hello;
  options.protocol.once = flags.once;
  options.protocol.patience_ms =
      static_cast<std::int64_t>(flags.patience_s * 1000);
  options.folder = folder->folder();
  options.why_unfit = why_unfit;
  options.lose_every = flags.lose_every;
  options.log = [&](const std::string& text) { say(common, text); };
  options.make_ports = [&](Blobs& blobs, const RunStart& start) {
    return make_node_ports(*folder, *scratch, *installation, *hello, blobs,
                           start);
  };
  say(common, hello->name + " joins " + flags.join);
  const LastWord last_word(interrupt.token());
  const auto served = serve_as_node(std::move(options), interrupt.token());
  return served ? 0 : report_error(common, served.error());
}

int keygen_command(const CommonFlags& common, const fs::path& folder) {
  if (const auto result = make_keys(folder); !result) {
    return report_error(common, result.error());
  }
  if (!common.quiet) {
    std::printf(
        "%s: the head's keys, a node's, and the list of allowed ones\n"
        "copy head.key, node.key and node.secret to each node; head.secret "
        "stays here\n",
        folder.string().c_str());
  }
  return 0;
}

int cluster_command(const CommonFlags& common, const fs::path& folder) {
  const auto run = RunDirectory::open(folder);
  if (!run) return report_error(common, run.error());
  const auto text = read_file(run->folder() / "cluster.json");
  if (!text) {
    return report_error(
        common, {ErrorCode::wrong_input, run->folder().string() +
                                             " never listened for nodes: run "
                                             "or resume it with --listen"});
  }
  const json state = parse_json(*text);
  if (!state.is_object() || !state.contains("nodes")) {
    return report_error(
        common, {ErrorCode::damaged, "cluster.json is not what weft writes"});
  }
  if (common.json) {
    print_line(state);
    return 0;
  }
  const std::size_t count = state["nodes"].size();
  std::printf("listens on %s; %zu node%s\n",
              terminal_line(state.value("listens", "")).c_str(), count,
              count == 1 ? "" : "s");
  for (const json& node : state["nodes"]) {
    std::printf("%s\n", terminal_line(row(node)).c_str());
  }
  return 0;
}

}  // namespace weft
