#include "runtime/host/spine.hpp"

#include <future>
#include <thread>

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

Envelope from(const Address& src, int number) {
  Envelope result = envelope(number);
  result.src = src;
  result.dst = "dispatcher";
  result.cause = static_cast<std::uint64_t>(number);
  return result;
}

/// A spine, what it delivered, and a promise kept at the n-th delivery.
struct World {
  explicit World(std::size_t expected, std::set<std::uint64_t> open = {})
      : spine(journal, blobs, std::move(open),
              {[this, expected](const SharedGroup& group) {
                 in_file = std::min(in_file, durable() >= group->back().seq);
                 const auto before = delivered.size();
                 delivered.insert(delivered.end(), group->begin(),
                                  group->end());
                 if (before < expected && delivered.size() >= expected) {
                   done.set_value();
                 }
               },
               [this](const Error& error) {
                 ++fatals;
                 why = error.message;
                 broke.set_value();
               }}) {}

  /// The last event that another process would see.
  std::uint64_t durable() const {
    const auto reader = Journal::open_read_only(file);
    return reader ? reader->last_seq() : 0;
  }

  Directory folder;
  fs::path file = folder / "journal.db";
  Journal journal = value(Journal::create(file, Sync::normal));
  BlobStore blobs{journal};
  std::vector<Envelope> delivered;
  bool in_file = true;
  int fatals = 0;
  std::string why;
  std::promise<void> done;
  std::promise<void> broke;
  Spine spine;
};

TEST_CASE("what is posted is numbered, journaled, then delivered in order") {
  World world(3);
  world.spine.post({from("broker", 1), from("broker", 2)});
  world.spine.post({from("composer", 3)});
  world.done.get_future().wait();
  world.spine.stop();
  CHECK(world.in_file);
  CHECK(value(read_all(world.journal)) == world.delivered);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(world.delivered[i].seq == i + 1);
    CHECK(world.delivered[i].cause == i + 1);
    CHECK(world.delivered[i].at_us > 0);
  }
}

TEST_CASE("batches of many threads stay whole and keep their sender's order") {
  constexpr int senders = 4;
  constexpr int batches = 50;
  World world(senders * batches * 2);
  {
    std::vector<std::jthread> threads;
    for (int who = 0; who < senders; ++who) {
      threads.emplace_back([&, who] {
        const Address src = "agent/" + std::to_string(who);
        for (int i = 0; i < batches; ++i) {
          world.spine.post({from(src, 2 * i), from(src, 2 * i + 1)});
        }
      });
    }
  }
  world.done.get_future().wait();
  world.spine.stop();
  std::map<Address, std::uint64_t> next;
  for (std::size_t i = 0; i < world.delivered.size(); i += 2) {
    const Envelope& first = world.delivered[i];
    const Envelope& second = world.delivered[i + 1];
    CHECK(first.src == second.src);
    CHECK(first.cause == next[first.src]++);
    CHECK(second.cause == next[first.src]++);
  }
}

TEST_CASE("a second reply to one request is delivered as stale") {
  World world(3);
  world.spine.post({from("broker", 0)});
  Envelope request = from("broker", 0);
  request.dst = "port/clock";
  world.spine.post({request});
  Envelope reply = from("port/clock", 2);
  reply.dst = "broker";
  world.spine.post({reply, reply});
  world.done.get_future().wait();
  world.spine.stop();
  const auto journal = value(read_all(world.journal));
  REQUIRE(journal.size() == 4);
  CHECK(journal[2].dst == "broker");
  CHECK(journal[3].dst == stale_address);
}

TEST_CASE("what an earlier process asked for may still be answered") {
  World world(2, {7});
  Envelope reply = from("port/clock", 7);
  reply.dst = "broker";
  world.spine.post({reply, reply});
  world.done.get_future().wait();
  world.spine.stop();
  CHECK(world.delivered[0].dst == "broker");
  CHECK(world.delivered[1].dst == stale_address);
}

TEST_CASE("nothing is taken after the stop") {
  World world(1);
  world.spine.post({from("broker", 1)});
  world.done.get_future().wait();
  world.spine.stop();
  world.spine.post({from("broker", 2)});
  world.spine.stop();
  CHECK(world.delivered.size() == 1);
  CHECK(world.journal.last_seq() == 1);
}

TEST_CASE("a journal that cannot be written is told once, nothing delivered") {
  World world(1);
  run_sql(world.file, "DROP TABLE event");
  world.spine.post({from("broker", 1)});
  world.broke.get_future().wait();
  world.spine.post({from("broker", 2)});
  world.spine.stop();
  CHECK(world.fatals == 1);
  CHECK(world.why.contains("journal"));
  CHECK(world.delivered.empty());
}

}  // namespace
}  // namespace weft
