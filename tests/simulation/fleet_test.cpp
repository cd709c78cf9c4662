// A bench over a fleet under a seeded clock: the fleet's, the runs' and the
// nodes' sides of the wire are the real ones; work and links are made up. Nodes
// join late, die, are cut off, leave and come back. The invariants:
//
//   A node works for one run at a time.
//   A run without a judge waits only if no run has two.
//   Each piece of work of each problem is answered exactly once.
//   All problems end.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "runtime/bus/fleet_protocol.hpp"
#include "runtime/bus/head_protocol.hpp"
#include "runtime/bus/node_protocol.hpp"

namespace weft {
namespace {

constexpr std::int64_t kStepMs = 20;
constexpr std::int64_t kSilenceMs = 2'000;

struct FleetFaults {
  int nodes = 3;
  int problems = 8;
  int longest = 30;     ///< pieces of a problem
  int late = 0;         ///< problems that come one by one, later
  int lost_frames = 0;  ///< out of 100
  bool has_faults = true;
  bool is_once = false;  ///< nodes go when no run comes any more
};

class FleetWorld {
 public:
  FleetWorld(std::uint64_t seed, FleetFaults faults)
      : faults_(faults), chance_(seed), fleet_(fleet_options()) {
    for (int i = 0; i < faults_.problems; ++i) {
      const bool is_late = i >= faults_.problems - faults_.late;
      due_.push_back({"problem" + std::to_string(i), 1 + pick(faults_.longest),
                      is_late ? now_ + 10'000 + 500 * i : 0});
    }
    for (int i = 0; i < faults_.nodes; ++i) {
      Node& node = nodes_["n" + std::to_string(i)];
      node.begins_ms = now_ + pick(5'000);
    }
  }

  /// Until all is done or the time is up.
  void play(std::int64_t time_max_ms = 600'000) {
    const std::int64_t end = now_ + time_max_ms;
    while (now_ < end && (!due_.empty() || !runs_.empty())) step();
    CHECK(due_.empty());
    CHECK(runs_.empty());
  }

  void run_for(std::int64_t time_ms) {
    const std::int64_t end = now_ + time_ms;
    while (now_ < end) step();
  }

  /// No run comes any more, though some may be under way. The nodes that still
  /// wait for one when the fleet is done.
  int part(std::int64_t time_max_ms) {
    const std::int64_t end = now_ + time_max_ms;
    is_parting_ = true;
    fleet_.finish(now_);
    drain_fleet();
    while (now_ < end && !fleet_.is_parted()) step();
    CHECK(fleet_.is_parted());
    return static_cast<int>(std::ranges::count_if(nodes_, [](const auto& item) {
      return item.second.protocol != nullptr;
    }));
  }

  std::map<std::string, std::int64_t> ended_ms;  ///< by problem
  std::map<std::string, std::int64_t> began_ms;
  int deaths = 0;
  int lost = 0;   ///< nodes, by their silence
  int moves = 0;  ///< nodes that were taken from a run that went on
  std::size_t at_once = 0;

 private:
  struct Problem {
    std::string name;
    int pieces = 0;
    std::int64_t due_ms = 0;
  };
  struct Work {
    std::uint64_t id = 0;
    std::string run;
    std::int64_t until_ms = 0;
  };
  /// A frame between the fleet and a node.
  struct Flight {
    std::int64_t due_ms = 0;
    std::string peer;
    wire::Frame frame;
  };
  struct Node {
    std::unique_ptr<NodeProtocol> protocol;
    std::string peer;
    std::string run;  // the run that it serves
    std::deque<Work> works;
    std::int64_t begins_ms = 0;
    std::int64_t cut_until_ms = 0;
    int incarnation = 0;
  };
  struct Run {
    std::unique_ptr<HeadProtocol> head;
    int pieces = 0;
    std::set<int> waiting;               // pieces that no node has
    std::map<std::uint64_t, int> asked;  // request -> piece
    std::map<std::string, int> in;       // node -> the piece it was asked
    std::map<int, int> answers;          // by piece
    std::int64_t gone_ms = 0;            // its process has ended
    bool is_finished = false;
  };

  FleetProtocol::Options fleet_options() const {
    FleetProtocol::Options options;
    options.weft = "1";
    options.silence_ms = kSilenceMs;
    options.gather_ms = 500;
    options.is_enough = [](const auto&) { return true; };
    options.kind_of = [](const wire::Hello&) {
      return FleetShares::Kind::judge;
    };
    return options;
  }

  int pick(int size) {
    return std::uniform_int_distribution<int>(0, size - 1)(chance_);
  }
  bool is_lost() { return pick(100) < faults_.lost_frames; }

  void begin(Node& node, const std::string& name) {
    NodeProtocol::Options options;
    options.hello.wire_min = wire::kWireVersionMin;
    options.hello.wire_max = wire::kWireVersion;
    options.hello.weft = "1";
    options.hello.name = name;
    options.hello.incarnation = std::to_string(++node.incarnation);
    options.hello.slots = {{"cpu", 1}};
    options.silence_ms = kSilenceMs;
    options.once = faults_.is_once;
    node.protocol = std::make_unique<NodeProtocol>(options);
    node.peer = name + "." + std::to_string(++peers_);
    node.run.clear();
    node.works.clear();
  }

  void step() {
    now_ += kStepMs;
    deliver();
    if (faults_.has_faults) disturb();
    begin_runs();
    fleet_.tick(now_);
    drain_fleet();
    for (auto& [name, run] : runs_) {
      run.head->tick(now_);
      give_work(name, run);
      run.head->flush(now_);
      drain(name);
    }
    for (auto& [name, node] : nodes_) {
      if (!node.protocol) {
        if (now_ >= node.begins_ms && !is_parting_) begin(node, name);
        continue;
      }
      work(node);
      node.protocol->tick(now_);
      drain(node);
    }
    end_runs();
    check_shares();
  }

  /// In the order in which they were sent.
  void send(std::deque<Flight>& line, const std::string& peer,
            wire::Frame frame) {
    const std::int64_t last = line.empty() ? 0 : line.back().due_ms;
    line.push_back({std::max(last, now_ + pick(100)), peer, std::move(frame)});
  }

  void deliver() {
    while (!to_fleet_.empty() && to_fleet_.front().due_ms <= now_) {
      const Flight flight = std::move(to_fleet_.front());
      to_fleet_.pop_front();
      fleet_.node_frame(flight.peer, flight.frame.header, body_of(flight.frame),
                        now_);
      drain_fleet();
    }
    while (!to_nodes_.empty() && to_nodes_.front().due_ms <= now_) {
      const Flight flight = std::move(to_nodes_.front());
      to_nodes_.pop_front();
      for (auto& [name, node] : nodes_) {
        if (!node.protocol || node.peer != flight.peer) continue;
        node.protocol->on_frame(flight.frame.header, body_of(flight.frame),
                                now_);
        drain(node);
        break;
      }
    }
  }

  static std::string body_of(const wire::Frame& frame) {
    return frame.body ? *frame.body : "";
  }

  void disturb() {
    if (pick(150) != 0) return;
    const auto chosen = std::next(nodes_.begin(), pick(faults_.nodes));
    Node& node = chosen->second;
    if (!node.protocol) return;
    switch (pick(3)) {
      case 0:  // dies
        ++deaths;
        node.protocol.reset();
        node.begins_ms = now_ + 500 + pick(20'000);
        break;
      case 1:
        node.cut_until_ms = now_ + pick(6'000);
        break;
      default:
        node.protocol->leave(now_);
        drain(node);
    }
  }

  void begin_runs() {
    if (is_parting_) return;
    const std::size_t judges = fleet_.judges();
    const std::size_t room =
        judges > runs_.size() ? judges - runs_.size() : std::size_t{0};
    const auto due = static_cast<std::size_t>(std::ranges::count_if(
        due_, [&](const Problem& item) { return item.due_ms <= now_; }));
    fleet_.reserve(std::min(room, due));
    while (!due_.empty() && due_.front().due_ms <= now_ &&
           runs_.size() < judges) {
      const Problem problem = due_.front();
      due_.pop_front();
      Run& run = runs_[problem.name];
      HeadProtocol::Options options;
      options.run = problem.name;
      options.start = "start";
      // As two heads that began in the same millisecond.
      options.first_session = static_cast<std::uint64_t>(now_);
      options.heartbeat_ms = 200;
      options.silence_ms = kSilenceMs;
      run.head = std::make_unique<HeadProtocol>(options);
      run.pieces = problem.pieces;
      for (int i = 0; i < problem.pieces; ++i) run.waiting.insert(i);
      began_ms[problem.name] = now_;
      fleet_.begin_run(problem.name);
      drain_fleet();
    }
    at_once = std::max(at_once, runs_.size());
  }

  void give_work(const std::string& name, Run& run) {
    for (auto& [node, asked] : run.in) {
      if (asked > 0 || run.waiting.empty()) continue;
      const int piece = *run.waiting.begin();
      run.waiting.erase(run.waiting.begin());
      const std::uint64_t id = ++requests_[name];  // as a journal's numbers
      run.asked[id] = piece;
      ++asked;
      run.head->submit({id, node, "port/time", "T",
                        std::make_shared<const std::string>(name)},
                       now_);
    }
    drain(name);
  }

  void end_runs() {
    for (auto next = runs_.begin(); next != runs_.end();) {
      const auto found = next++;
      Run& run = found->second;
      if (!run.is_finished && std::cmp_equal(run.answers.size(), run.pieces)) {
        run.is_finished = true;
        run.head->finish(now_);
        drain(found->first);
      }
      if (!run.is_finished || !run.head->is_parted(now_)) continue;
      if (run.gone_ms == 0) run.gone_ms = now_ + pick(500);
      if (now_ < run.gone_ms) continue;
      for (const auto& [piece, count] : run.answers) CHECK(count == 1);
      ended_ms[found->first] = now_;
      const std::string name = found->first;
      runs_.erase(found);
      fleet_.end_run(name);
      drain_fleet();
    }
  }

  void check_shares() {
    if (is_parting_) return;
    std::map<std::string, int> count;
    for (const auto& [name, run] : runs_) count[name] = 0;
    for (const auto& node : fleet_.nodes()) {
      if (!node.run.empty()) ++count[node.run];
    }
    int least = 1'000, most = 0;
    for (const auto& [run, nodes] : count) {
      least = std::min(least, nodes);
      most = std::max(most, nodes);
    }
    CHECK((runs_.empty() || most <= least + 1));
  }

  // The node

  void work(Node& node) {
    if (node.works.empty()) return;
    Work& now = node.works.front();
    // One run's work has the machine alone.
    for (const Work& other : node.works) CHECK(other.run == now.run);
    if (now.until_ms == 0) now.until_ms = now_ + 50 + pick(400);
    if (now_ < now.until_ms) return;
    node.protocol->result(now.id, "R", "done", {}, now_);
    node.works.pop_front();
  }

  void drain(Node& node) {
    if (!node.protocol) return;
    for (auto& action : node.protocol->take_actions()) {
      std::visit([&](auto& item) { at_node(node, item); }, action);
      if (!node.protocol) return;
    }
  }
  void at_node(Node& node, node_action::Send& send) {
    if (now_ < node.cut_until_ms || is_lost()) return;
    this->send(to_fleet_, node.peer, std::move(send.frame));
  }
  void at_node(Node& node, node_action::Begin& begin) {
    CHECK(node.works.empty());
    node.run = begin.run;
  }
  void at_node(Node& node, node_action::Work& work) {
    CHECK(work.body == node.run);  // and not another run's
    node.works.push_back({work.id, work.body, 0});
  }
  void at_node(Node& node, node_action::Stop& stop) {
    std::erase_if(node.works,
                  [&](const Work& work) { return work.id == stop.id; });
  }
  void at_node(Node& node, node_action::End&) {
    node.works.clear();
    node.run.clear();
  }
  void at_node(Node& node, node_action::Reconnect&) {
    node.peer = node.peer.substr(0, node.peer.find('.')) + "." +
                std::to_string(++peers_);
  }
  void at_node(Node& node, node_action::Quit& quit) {
    CHECK(quit.refused.empty());
    node.protocol.reset();
    node.begins_ms = now_ + 500 + pick(10'000);
  }
  template <class Other>
  void at_node(Node&, Other&) {}

  // The fleet

  void drain_fleet() {
    for (auto& action : fleet_.take_actions()) {
      std::visit([this](auto& item) { at_fleet(item); }, action);
    }
  }
  void at_fleet(fleet_action::ToNode& send) {
    for (auto& [name, node] : nodes_) {
      if (!node.protocol || node.peer != send.peer) continue;
      if (now_ < node.cut_until_ms || is_lost()) return;
      return this->send(to_nodes_, send.peer, std::move(send.frame));
    }
  }
  void at_fleet(fleet_action::ToRun& send) {
    const auto run = runs_.find(links_[send.link]);
    if (run == runs_.end()) return;
    run->second.head->on_frame(std::to_string(send.link), send.frame.header,
                               body_of(send.frame), now_);
    drain(run->first);
  }
  void at_fleet(fleet_action::Open& open) { links_[open.link] = open.run; }
  void at_fleet(fleet_action::Close& close) {
    moves += runs_.contains(links_[close.link]) ? 1 : 0;
    links_.erase(close.link);
  }
  template <class Other>
  void at_fleet(Other&) {}

  // A run

  void drain(const std::string& name) {
    const auto run = runs_.find(name);
    if (run == runs_.end()) return;
    for (auto& action : run->second.head->take_actions()) {
      std::visit([&](auto& item) { at_run(run->second, item); }, action);
    }
  }
  void at_run(Run&, head_action::Send& send) {
    const int link = std::stoi(send.peer);
    if (!links_.contains(link)) return;
    fleet_.run_frame(link, send.frame.header, body_of(send.frame), now_);
    drain_fleet();
  }
  void at_run(Run& run, head_action::Joined& joined) {
    run.in.try_emplace(joined.hello.name, 0);
  }
  void at_run(Run& run, head_action::Leaving& leaving) {
    run.in.erase(leaving.node);
  }
  void at_run(Run& run, head_action::NodeGone& gone) {
    lost += gone.politely ? 0 : 1;
    run.in.erase(gone.node);
    for (const NodeRequest& request : gone.requests) {
      run.waiting.insert(run.asked.at(request.id));
      run.asked.erase(request.id);
    }
  }
  void at_run(Run& run, head_action::Answered& answer) {
    const auto asked = run.asked.find(answer.request.id);
    REQUIRE(asked != run.asked.end());
    ++run.answers[asked->second];
    run.asked.erase(asked);
    const auto node = run.in.find(answer.request.node);
    if (node != run.in.end()) --node->second;
    run.head->journaled(answer.request.id, now_);
  }
  template <class Other>
  void at_run(Run&, Other&) {}

  FleetFaults faults_;
  std::mt19937_64 chance_;
  std::int64_t now_ = 1'000;
  FleetProtocol fleet_;
  std::map<std::string, Node> nodes_;
  std::deque<Problem> due_;
  std::map<std::string, Run> runs_;
  std::map<int, std::string> links_;
  std::map<std::string, std::uint64_t> requests_;
  std::deque<Flight> to_fleet_, to_nodes_;
  int peers_ = 0;
  bool is_parting_ = false;
};

TEST_CASE("problems share nodes that come and go, and each ends once") {
  int deaths = 0, moves = 0;
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    CAPTURE(seed);
    FleetFaults faults;
    faults.nodes = 1 + static_cast<int>(seed % 5);
    faults.lost_frames = seed % 2 == 0 ? 0 : 2;
    FleetWorld world(seed, faults);
    world.play();
    deaths += world.deaths;
    moves += world.moves;
  }
  CHECK(deaths > 1'000);
  CHECK(moves > 1'000);
}

TEST_CASE("nodes of one bench go at its end, whatever frames are lost") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    FleetFaults faults;
    faults.nodes = 4;
    faults.has_faults = false;
    faults.lost_frames = 30;
    faults.is_once = true;
    FleetWorld world(seed, faults);
    // All nodes have joined; they work, change runs or wait.
    world.run_for(10'000 + static_cast<std::int64_t>(seed) * 50);
    CHECK(world.part(60'000) == 0);
  }
}

TEST_CASE("a hundred problems share forty nodes") {
  FleetFaults faults;
  faults.nodes = 40;
  faults.problems = 100;
  FleetWorld world(1, faults);
  world.play();
  CHECK(world.at_once > 20);
}

TEST_CASE("in peace, as many problems run at once as there are nodes") {
  FleetFaults faults;
  faults.nodes = 4;
  faults.has_faults = false;
  FleetWorld world(1, faults);
  world.play();
  CHECK(world.at_once == 4);
  CHECK(world.deaths == 0);
}

TEST_CASE("a run gives a node up in peace when another problem comes") {
  int moves = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    FleetFaults faults;
    faults.nodes = 4;
    faults.problems = 5;
    faults.late = 4;
    faults.longest = 200;
    faults.has_faults = false;
    FleetWorld world(seed, faults);
    world.play();
    CHECK(world.lost == 0);
    moves += world.moves;
  }
  CHECK(moves > 50);
}

}  // namespace
}  // namespace weft
