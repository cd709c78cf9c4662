#include "runtime/host/caf_host.hpp"

#include <stdexcept>

#include "runtime/host/effect_ledger.hpp"
#include "runtime/store/sha256.hpp"
#include "tests/runtime/journal_fixture.hpp"
#include "tests/runtime/toy_world.hpp"

namespace weft {
namespace {

/// A journal in a folder of its own, and what the port was asked.
struct World {
  Directory folder;
  fs::path file = folder / "journal.db";
  std::vector<std::uint64_t> asked;
  std::stop_source stop;

  HostEnd run(const ToyPort::Act& act, Replay::MakeRole make = &make_counter) {
    auto journal = value(Journal::create(file, Sync::normal));
    BlobStore blobs(journal);
    Ports ports = toy_ports(asked, act);
    return host_run(journal, blobs, ports, options(std::move(make)),
                    counter_address, toy_start(), stop.get_token());
  }

  Result<HostEnd> resume(const ToyPort::Act& act,
                         Replay::MakeRole make = &make_counter) {
    auto journal = value(Journal::open(file, Sync::normal));
    BlobStore blobs(journal);
    Ports ports = toy_ports(asked, act);
    return host_resume(journal, blobs, ports, options(std::move(make)), {});
  }

  HostOptions options(Replay::MakeRole make) {
    HostOptions host_options;
    host_options.make_role = std::move(make);
    host_options.why_unfit = why_unfit;
    host_options.on_user = [this](const Envelope& envelope, const Message&) {
      reports.push_back(envelope.type);
    };
    return host_options;
  }

  std::vector<Envelope> events() const {
    return value(read_all(value(Journal::open_read_only(file))));
  }

  int count(const std::string& type) const {
    int found = 0;
    for (const Envelope& event : events()) found += event.type == type ? 1 : 0;
    return found;
  }

  std::vector<std::string> reports;
  std::function<std::string()> why_unfit;
};

/// Answers until `tick`, then asks the run to stop and stays silent.
ToyPort::Act stop_at(std::uint64_t tick, std::stop_source& stop) {
  return [tick, &stop](const TimerRequest& request, const Port::Reply& reply) {
    if (request.effect < tick) return answer(request, reply);
    stop.request_stop();
  };
}

class Thrower : public Role {
 public:
  void receive(const Address&, const Message& message, Context&) override {
    if (std::holds_alternative<RunStart>(message)) {
      throw std::runtime_error("a bug");
    }
  }
};

/// Sends something to somebody when the run starts.
class Sender : public Role {
 public:
  explicit Sender(Outgoing words) : words_(std::move(words)) {}
  void receive(const Address&, const Message&, Context& context) override {
    context.send(words_.dst, words_.message);
  }

 private:
  Outgoing words_;
};

Replay::MakeRole sender_of(const Outgoing& words) {
  return [words](const Address& address) -> std::unique_ptr<Role> {
    if (address != counter_address) return nullptr;
    return std::make_unique<Sender>(words);
  };
}

TEST_CASE("a run goes from its first envelope to RunFinished") {
  World world;
  const HostEnd end = world.run(answer);
  CHECK(end.kind == HostEnd::Kind::finished);
  CHECK(end.finished == RunFinished{0, "3 ticks"});
  CHECK(world.asked == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(world.reports == std::vector<std::string>{"Progress", "Progress",
                                                  "Progress", "RunFinished"});
}

TEST_CASE("the journal of a run names each envelope's cause") {
  World world;
  world.run(answer);
  const auto events = world.events();
  REQUIRE(events.size() == 11);
  CHECK(events[0].type == "RunStart");
  CHECK(events[0].src == address::user);
  CHECK(events[0].cause == 0);
  CHECK(events[2].type == "TimerRequest");
  CHECK(events[2].cause == 1);
  CHECK(events[3].type == "TimerFired");
  CHECK(events[3].src == address::clock);
  CHECK(events[3].cause == events[2].seq);
  CHECK(events[10].type == "RunFinished");
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].seq == i + 1);
  }
}

TEST_CASE("what a role put is in the journal with what it said") {
  World world;
  world.run(answer);
  const auto journal = value(Journal::open_read_only(world.file));
  CHECK(value(journal.get_blob(content_hash("tick 3"))) == "tick 3");
}

TEST_CASE("on a full disk a failure is no answer, and the run can go on") {
  World world;
  world.why_unfit = [] { return std::string("the disk is full"); };
  const HostEnd end =
      world.run([](const TimerRequest& request, const Port::Reply& reply) {
        if (request.effect < 2) return answer(request, reply);
        reply(WriteFilesReply{request.effect, {"missing", "no space left"}});
      });
  REQUIRE(end.kind == HostEnd::Kind::broken);
  CHECK(end.error.code == ErrorCode::missing);
  CHECK(end.error.message ==
        "the disk is full: make room, then go on with 'weft resume'");
  CHECK(world.count("WriteFilesReply") == 0);
  world.why_unfit = [] { return std::string(); };
  CHECK(value(world.resume(answer)).kind == HostEnd::Kind::finished);
  CHECK(world.asked == std::vector<std::uint64_t>{1, 2, 2, 3});
}

TEST_CASE("a role that throws breaks the run, named with its event") {
  World world;
  const HostEnd end = world.run(answer, [](const Address& address) {
    return address == counter_address
               ? std::unique_ptr<Role>(std::make_unique<Thrower>())
               : nullptr;
  });
  CHECK(end.kind == HostEnd::Kind::broken);
  CHECK(end.error.message == "role counter failed on event 1: a bug");
}

TEST_CASE("a message to nobody breaks the run, named with its address") {
  World world;
  const HostEnd end = world.run(answer, sender_of({"nobody", TimerFired{1}}));
  CHECK(end.kind == HostEnd::Kind::broken);
  CHECK(end.error.message.contains("nobody stands at nobody"));
}

TEST_CASE("a request to a port that is not there breaks the run") {
  World world;
  const HostEnd end =
      world.run(answer, sender_of({"port/gpu", TimerRequest{1, 1}}));
  CHECK(end.kind == HostEnd::Kind::broken);
  CHECK(end.error.message.contains("no port takes TimerRequest at port/gpu"));
}

TEST_CASE("a second reply is journaled as stale and changes nothing") {
  World world;
  const HostEnd end =
      world.run([](const TimerRequest& request, const Port::Reply& reply) {
        reply(TimerFired{request.effect});
        reply(TimerFired{request.effect});
      });
  CHECK(end.finished == RunFinished{0, "3 ticks"});
  CHECK(world.asked == std::vector<std::uint64_t>{1, 2, 3});
  int stale = 0;
  int heard = 0;
  for (const Envelope& event : world.events()) {
    if (event.type != "TimerFired") continue;
    ++(event.dst == stale_address ? stale : heard);
  }
  CHECK(heard == 3);
  CHECK(stale >= 2);  // the last one may come when the run has ended
}

TEST_CASE("a stopped run is resumed, and nothing answered is asked again") {
  World world;
  const HostEnd stopped = world.run(stop_at(2, world.stop));
  CHECK(stopped.kind == HostEnd::Kind::interrupted);
  CHECK(world.asked == std::vector<std::uint64_t>{1, 2});
  world.asked.clear();

  const HostEnd end = value(world.resume(answer));
  CHECK(end.kind == HostEnd::Kind::finished);
  CHECK(end.finished == RunFinished{0, "3 ticks"});
  CHECK(world.asked == std::vector<std::uint64_t>{2, 3});
  CHECK(world.count("TimerRequest") == 3);
  CHECK(world.count("TimerFired") == 3);
}

TEST_CASE("a resumed run says what its roles said and the journal lacks") {
  World world;
  {
    auto journal = value(Journal::create(world.file, Sync::normal));
    std::vector<Envelope> first =
        to_envelopes(address::user, 0, {{counter_address, toy_start()}});
    value(journal.append(first));
  }
  const HostEnd end = value(world.resume(answer));
  CHECK(end.finished == RunFinished{0, "3 ticks"});
  CHECK(world.count("RunStart") == 1);
  CHECK(world.count("TimerRequest") == 3);
}

TEST_CASE("resuming a finished run asks nothing and adds nothing") {
  World world;
  world.run(answer);
  world.asked.clear();
  const auto before = world.events().size();
  CHECK(value(world.resume(answer)).finished == RunFinished{0, "3 ticks"});
  CHECK(world.asked.empty());
  CHECK(world.events().size() == before);
}

TEST_CASE("a run is not resumed by roles that decide otherwise") {
  World world;
  world.run(stop_at(2, world.stop));
  const auto end =
      world.resume(answer, sender_of({address::clock, TimerRequest{7, 7}}));
  REQUIRE(!end);
  CHECK(end.error().code == ErrorCode::damaged);
  CHECK(end.error().message.contains("decides differently"));
  CHECK(end.error().message.contains("event 2, role counter"));
}

TEST_CASE("a journal that cannot be written breaks the run") {
  World world;
  const HostEnd end =
      world.run([&](const TimerRequest& request, const Port::Reply& reply) {
        if (request.effect == 2) run_sql(world.file, "DROP TABLE event");
        answer(request, reply);
      });
  CHECK(end.kind == HostEnd::Kind::broken);
  CHECK(end.error.message.contains("journal"));
  CHECK(world.asked == std::vector<std::uint64_t>{1, 2});
}

}  // namespace
}  // namespace weft
