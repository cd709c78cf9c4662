// What the bus between head and nodes costs and gives, over loopback, nodes as
// processes of their own whose ports are made up.
//
//     bench_bus            messages a second, against bare ZeroMQ with msgpack
//     bench_bus work       four nodes of one slot against one, on work of 1 s
//     bench_bus lost       when a killed node's work is done elsewhere
//     bench_bus crowd      what a thousand idle nodes cost the head
//
// `bench_bus node …`, `echo …` and `nodes …` are the processes that it starts.
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <zmq.hpp>

#include "benchmarks/measurement_rounds.hpp"
#include "runtime/bus/head_bus.hpp"
#include "runtime/bus/node.hpp"
#include "runtime/machine/work_queue.hpp"

extern char** environ;

namespace {

using namespace weft;
using namespace weft::benchmark;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
/// Requests under way at a time; a node has so many slots.
constexpr int kWindow = 64;

RunStart simulated_start() {
  RunStart start;
  start.weft_version = "bench";
  return start;
}

/// A port that answers after a while with as many bytes as it was asked for.
class SleepyPort : public Port {
 public:
  SleepyPort(int slots, std::int64_t sleep_ms)
      : sleep_ms_(sleep_ms), queue_(static_cast<std::size_t>(slots)) {}
  void start(const Message& request, Reply reply) override {
    if (sleep_ms_ == 0) return reply(answer(request));
    queue_.push([this, request, reply = std::move(reply)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms_));
      reply(answer(request));
    });
  }
  static Message answer(const Message& request) {
    const auto& build = std::get<BuildRequest>(request);
    BuildReply reply;
    reply.effect = build.effect;
    reply.log = build.source;
    return reply;
  }

 private:
  std::int64_t sleep_ms_;
  WorkQueue queue_;
};

wire::Hello hello_of(const std::string& name, int slots) {
  wire::Hello hello;
  hello.wire_min = wire::kWireVersionMin;
  hello.wire_max = wire::kWireVersion;
  hello.weft = "bench";
  hello.name = name;
  hello.incarnation = std::to_string(getpid());
  hello.machine = simulated_start().machine;
  hello.slots = {{"cpu", slots}};
  return hello;
}

std::string text_of(const zmq::message_t& message) {
  return {static_cast<const char*>(message.data()), message.size()};
}

/// bench_bus node ENDPOINT NAME SLOTS SLEEP_MS FOLDER
int serve(char** words) {
  NodeOptions options;
  options.endpoint = words[0];
  const int slots = std::atoi(words[2]);
  const int sleep_ms = std::atoi(words[3]);
  options.protocol.hello = hello_of(words[1], slots);
  options.protocol.once = true;
  options.folder = words[4];
  options.make_ports = [=](Blobs&, const RunStart&) {
    NodePorts node_ports;
    node_ports.ports[address::build] =
        std::make_unique<SleepyPort>(slots, sleep_ms);
    return node_ports;
  };
  return serve_as_node(std::move(options), {}) ? 0 : 1;
}

/// bench_bus nodes ENDPOINT COUNT: so many nodes' side of the wire in one
/// process, which have nothing to do.
int serve_crowd(char** words) {
  const int count = std::atoi(words[1]);
  const rlimit files{16'384, 16'384};
  require(setrlimit(RLIMIT_NOFILE, &files) == 0, "too few open files allowed");
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, count + 8);
  struct One {
    NodeProtocol protocol;
    zmq::socket_t socket;
  };
  std::vector<std::unique_ptr<One>> crowd;
  std::vector<zmq::pollitem_t> items;
  for (int i = 0; i < count; ++i) {
    NodeProtocol::Options options;
    options.hello = hello_of("n" + std::to_string(i), 1);
    crowd.push_back(std::make_unique<One>(
        One{NodeProtocol(options), zmq::socket_t(context, ZMQ_DEALER)}));
    crowd.back()->socket.connect(words[0]);
    items.push_back({crowd.back()->socket.handle(), 0, ZMQ_POLLIN, 0});
  }
  std::int64_t ticked_ms = 0;
  while (true) {
    zmq_poll(items.data(), static_cast<int>(items.size()), 100);
    const std::int64_t now_ms = SocketThread::now_ms();
    const bool is_tick = now_ms - ticked_ms >= 100;
    if (is_tick) ticked_ms = now_ms;
    for (auto& entry : crowd) {
      zmq::message_t header, body;
      while (entry->socket.recv(header, zmq::recv_flags::dontwait)) {
        if (header.more()) (void)entry->socket.recv(body);
        entry->protocol.on_frame(text_of(header), text_of(body), now_ms);
      }
      if (is_tick) entry->protocol.tick(now_ms);
      for (NodeAction& action : entry->protocol.take_actions()) {
        const auto* send = std::get_if<node_action::Send>(&action);
        if (!send) continue;
        entry->socket.send(zmq::buffer(send->frame.header),
                           zmq::send_flags::dontwait);
      }
    }
  }
}

class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    words.insert(words.begin(), "/proc/self/exe");
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    require(posix_spawn(&pid_, pointers[0], nullptr, nullptr, pointers.data(),
                        environ) == 0,
            "cannot start a process");
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Child() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

/// A head with nodes, and who has answered what.
class Head {
 public:
  explicit Head(const fs::path& folder, std::int64_t silence_ms = 15'000)
      : folder_(folder),
        journal_(Journal::create(folder / "journal.db", Sync::normal)),
        blobs_(*journal_) {
    HeadBus::Options options;
    options.endpoint = "tcp://127.0.0.1:0";
    options.run = "bench";
    options.start = simulated_start();
    options.heartbeat_ms = std::clamp<std::int64_t>(silence_ms / 5, 100, 1'000);
    options.silence_ms = silence_ms;
    bus_ = std::make_unique<HeadBus>(blobs_, std::move(options));
    require(bus_->listen().has_value(), "cannot listen");
    bus_->attach([this](const std::vector<Envelope>& batch) { hear(batch); });
  }
  ~Head() { bus_->close(true); }

  Child start_node(const std::string& name, int slots, int sleep_ms) {
    Child child({"node", bus_->endpoint(), name, std::to_string(slots),
                 std::to_string(sleep_ms), (folder_ / name).string()});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_.contains(name); });
    return child;
  }

  Child start_crowd(int count) {
    Child child({"nodes", bus_->endpoint(), std::to_string(count)});
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return in_.size() == static_cast<std::size_t>(count); });
    return child;
  }

  void ask(std::uint64_t id, const std::string& node, const std::string& text) {
    BuildRequest request;
    request.effect = id;
    request.source = text;
    const Envelope envelope{id,
                            0,
                            0,
                            "bench",
                            address::at(address::build, node),
                            std::string(BuildRequest::name),
                            encode(request)};
    bus_->begin(envelope, request, {}, [this, id, node](const Message& reply) {
      Envelope journaled;
      journaled.cause = std::get<BuildReply>(reply).effect;
      bus_->journaled(journaled);
      const std::lock_guard lock(mutex_);
      ++answered_;
      answered_s_[id] = now_s();
      by_[id] = node;
      changed_.notify_all();
    });
  }
  void wait_answers(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answered_ >= count; });
  }
  void wait_gone(const std::string& node) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !in_.contains(node); });
  }
  static double now_s() {
    return std::chrono::duration<double>(Clock::now().time_since_epoch())
        .count();
  }
  double answered_s(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    return answered_s_.at(id);
  }
  std::size_t answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }

 private:
  void hear(const std::vector<Envelope>& batch) {
    const std::lock_guard lock(mutex_);
    for (const Envelope& envelope : batch) {
      const auto message = decode(envelope.type, envelope.body);
      const auto& location = std::get<Capacities>(*message);
      if (location.units.empty() || location.units.begin()->second == 0) {
        in_.erase(location.location);
      } else {
        in_.insert(location.location);
      }
    }
    changed_.notify_all();
  }

  fs::path folder_;
  Result<Journal> journal_;
  BlobStore blobs_;
  std::unique_ptr<HeadBus> bus_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> in_;
  std::size_t answered_ = 0;
  std::map<std::uint64_t, double> answered_s_;
  std::map<std::uint64_t, std::string> by_;
};

/// Requests and replies a second, kWindow under way.
double bus_rate(const fs::path& folder, const std::string& text, int count) {
  Head head(folder);
  const Child node = head.start_node("n1", kWindow, 0);
  const double s = seconds([&] {
    for (int id = 1; id <= count; ++id) {
      if (id > kWindow)
        head.wait_answers(static_cast<std::size_t>(id - kWindow));
      head.ask(static_cast<std::uint64_t>(id), "n1", text);
    }
    head.wait_answers(static_cast<std::size_t>(count));
  });
  return 2 * count / s;
}

void say(zmq::socket_t& socket, const wire::Header& header,
         const Message& message) {
  socket.send(zmq::buffer(wire::encode_header(header)),
              zmq::send_flags::sndmore);
  socket.send(zmq::buffer(encode(message)), zmq::send_flags::none);
}

Message hear(zmq::socket_t& socket, std::string_view type) {
  zmq::message_t header, body;
  (void)socket.recv(header);
  (void)socket.recv(body);
  require(wire::decode_header(text_of(header)).has_value(), "a bad header");
  auto message = decode(type, text_of(body));
  require(message.has_value(), "a bad message");
  return std::move(*message);
}

/// bench_bus echo ENDPOINT: a bare node.
int echo(char** words) {
  zmq::context_t context;
  zmq::socket_t socket(context, ZMQ_DEALER);
  socket.connect(words[0]);
  socket.send(zmq::str_buffer("here"), zmq::send_flags::none);
  while (true) {
    const Message request = hear(socket, BuildRequest::name);
    const std::uint64_t id = effect_of(request);
    say(socket, wire::Reply{1, id, id, std::string(BuildReply::name), {}},
        SleepyPort::answer(request));
  }
}

/// The same messages over the same sockets, encoded and decoded the same way,
/// and nothing else: no acknowledgement, no state, one thread.
double bare_rate(const std::string& text, int count) {
  zmq::context_t context;
  zmq::socket_t socket(context, ZMQ_ROUTER);
  socket.bind("tcp://127.0.0.1:0");
  const Child node({"echo", socket.get(zmq::sockopt::last_endpoint)});
  zmq::message_t peer, here;
  (void)socket.recv(peer);
  (void)socket.recv(here);
  const auto ask = [&](int id) {
    const auto number = static_cast<std::uint64_t>(id);
    BuildRequest request;
    request.effect = number;
    request.source = text;
    socket.send(zmq::buffer(peer.data(), peer.size()),
                zmq::send_flags::sndmore);
    say(socket,
        wire::Request{1, number, number, address::build,
                      std::string(BuildRequest::name)},
        request);
  };
  const auto answer = [&] {
    zmq::message_t from;
    (void)socket.recv(from);
    (void)hear(socket, BuildReply::name);
  };
  const double s = seconds([&] {
    for (int id = 1; id <= count; ++id) {
      if (id > kWindow) answer();
      ask(id);
    }
    for (int id = 0; id < std::min(count, kWindow); ++id) answer();
  });
  return 2 * count / s;
}

double cpu_seconds(__rusage_who whose = RUSAGE_SELF) {
  rusage used{};
  getrusage(whose, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

/// Microseconds of processors that a message takes, at both sides.
template <class Work>
double cpu_us(int messages, Work work) {
  const auto both = [] { return cpu_seconds() + cpu_seconds(RUSAGE_CHILDREN); };
  const double before_s = both();
  work();
  return (both() - before_s) * 1e6 / messages;
}

void compare(const fs::path& folder, std::size_t bytes, int count) {
  const std::string text(bytes, 'x');
  std::vector<double> bus, bare, ratio, bus_us, bare_us;
  for (int round = 0; round < kRounds; ++round) {
    const fs::path own =
        folder / (std::to_string(bytes) + "-" + std::to_string(round));
    fs::create_directories(own);
    bus_us.push_back(
        cpu_us(2 * count, [&] { bus.push_back(bus_rate(own, text, count)); }));
    bare_us.push_back(
        cpu_us(2 * count, [&] { bare.push_back(bare_rate(text, count)); }));
    ratio.push_back(bus.back() / bare.back());
  }
  std::printf(
      "%6zu bytes, %d under way: bus %8.0f/s  bare ZeroMQ %8.0f/s  ratio %.2f "
      "(%.2f to %.2f); processors: %.1f and %.1f us a message\n",
      bytes, kWindow, median(bus), median(bare), median(ratio),
      std::ranges::min(ratio), std::ranges::max(ratio), median(bus_us),
      median(bare_us));
  std::fflush(stdout);
}

/// Seconds for so many pieces of work of 1 s.
double work_seconds(const fs::path& folder, int nodes, int pieces) {
  fs::create_directories(folder);
  Head head(folder);
  std::vector<Child> children;
  for (int i = 0; i < nodes; ++i) {
    children.push_back(head.start_node("n" + std::to_string(i), 1, 1'000));
  }
  const double before_s = cpu_seconds();
  const double s = seconds([&] {
    for (int id = 1; id <= pieces; ++id) {
      head.ask(static_cast<std::uint64_t>(id), "n" + std::to_string(id % nodes),
               "source");
    }
    head.wait_answers(static_cast<std::size_t>(pieces));
  });
  std::printf("%d nodes, %d pieces: %.2f s; the head %.2f %% of a core\n",
              nodes, pieces, s, 100 * (cpu_seconds() - before_s) / s);
  std::fflush(stdout);
  return s;
}

/// A node is killed at work; its work is asked of another as soon as it is
/// known to be gone.
void lost_seconds(const fs::path& folder, std::int64_t silence_ms) {
  std::vector<double> took;
  for (int round = 0; round < kRounds; ++round) {
    const fs::path own = folder / ("lost" + std::to_string(round));
    fs::create_directories(own);
    Head head(own, silence_ms);
    Child victim = head.start_node("n1", 1, 60'000);
    const Child other = head.start_node("n2", 1, 0);
    head.ask(1, "n1", "source");
    head.ask(2, "n2", "source");
    head.wait_answers(1);
    victim.kill();
    took.push_back(seconds([&] {
      head.wait_gone("n1");
      head.ask(3, "n2", "source");
      head.wait_answers(2);
    }));
  }
  std::printf(
      "silence %.1f s, heartbeat %.1f s: a killed node's work is done "
      "elsewhere "
      "after %.2f s (%.2f to %.2f)\n",
      static_cast<double>(silence_ms) / 1e3,
      static_cast<double>(
          std::clamp<std::int64_t>(silence_ms / 5, 100, 1'000)) /
          1e3,
      median(took), std::ranges::min(took), std::ranges::max(took));
}

/// Nobody works; beats go both ways.
void crowd_share(const fs::path& folder, int nodes) {
  fs::create_directories(folder);
  Head head(folder);
  std::optional<Child> crowd;
  const double joined_s = seconds([&] { crowd = head.start_crowd(nodes); });
  const double before_s = cpu_seconds();
  const double s =
      seconds([] { std::this_thread::sleep_for(std::chrono::seconds(10)); });
  std::printf(
      "%d nodes: in after %.2f s; idle, the head takes %.1f %% of a core\n",
      nodes, joined_s, 100 * (cpu_seconds() - before_s) / s);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "node" && argc == 7) return serve(argv + 2);
  if (verb == "echo" && argc == 3) return echo(argv + 2);
  if (verb == "nodes" && argc == 4) return serve_crowd(argv + 2);
  const fs::path folder =
      fs::temp_directory_path() / ("bench_bus." + std::to_string(getpid()));
  fs::create_directories(folder);
  if (verb == "work") {
    const double one_s = work_seconds(folder / "one", 1, 12);
    const double four_s = work_seconds(folder / "four", 4, 12);
    std::printf("four against one: %.2f\n", one_s / four_s);
  } else if (verb == "lost") {
    lost_seconds(folder, 2'000);
    lost_seconds(folder, 5'000);
  } else if (verb == "crowd") {
    for (const int nodes : {10, 100, 1'000}) {
      crowd_share(folder / std::to_string(nodes), nodes);
    }
  } else {
    compare(folder, 256, 40'000);
    compare(folder, 64 << 10, 4'000);
  }
  fs::remove_all(folder);
}
