#include "runtime/debug/fork.hpp"

#include "runtime/host/effect_ledger.hpp"
#include "runtime/store/sha256.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

/// An agent of nobody's: two requests, one answer.
std::vector<Envelope> events() {
  const auto event = [](Address src, Address dst, const Message& message,
                        std::uint64_t cause) {
    return Envelope{0,
                    cause,
                    1'000,
                    std::move(src),
                    std::move(dst),
                    std::string(name_of(message)),
                    encode(message)};
  };
  CheckReply reply;
  reply.effect = 7;
  reply.verdict.kind = "correct";
  reply.verdict.correct = true;
  CheckRequest request;
  request.effect = 7;
  return {event("user", "extractor", RunStart{}, 0),
          event("worker/a.b", "port/verify", request, 1),
          event("port/verify", "worker/a.b", reply, 2),
          event("port/verify", stale_address, reply, 2)};
}

struct Forks {
  Directory directory;
  Journal origin = value(Journal::create(directory / "a.db", Sync::normal));
  Journal fork = value(Journal::create(directory / "b.db", Sync::normal));
  BlobStore blobs{fork};

  Forks() {
    value(origin.put_blob("a text"));
    auto all = events();
    value(origin.append(all));
  }
  Result<ForkEnd> make(ForkOrder order) {
    return fork_journal(origin, fork, blobs, order,
                        [](const Address&) { return nullptr; });
  }
  Envelope last() {
    Envelope last;
    value(fork.read(1, [&](const Envelope& envelope) {
      last = envelope;
      return true;
    }));
    return last;
  }
};

TEST_CASE("a fork has the events up to one, as they were, and all blobs") {
  Forks forks;
  value(forks.make({.at = 2}));
  CHECK(forks.fork.last_seq() == 2);
  auto second = events()[1];
  second.seq = 2;
  CHECK(forks.last() == second);
  CHECK(value(forks.fork.get_blob(content_hash("a text"))) == "a text");
  value(forks.fork.verify());
}

TEST_CASE("fields of an answer are changed, and the others stay") {
  Forks forks;
  ForkOrder order{.at = 3};
  order.reply = {{"verdict", {{"correct", false}, {"kind", "wrong"}}},
                 {"waited_ms", 5}};
  value(forks.make(order));
  const Envelope last = forks.last();
  const auto reply = std::get<CheckReply>(*decode(last.type, last.body));
  CHECK(!reply.verdict.correct);
  CHECK(reply.verdict.kind == "wrong");
  CHECK(reply.waited_ms == 5);
  CHECK(reply.effect == 7);
}

TEST_CASE("what does not fit is refused with its name") {
  const auto why = [](ForkOrder order) {
    Forks forks;
    const auto result = forks.make(std::move(order));
    REQUIRE(!result.has_value());
    CHECK(result.error().code == ErrorCode::wrong_input);
    return result.error().message;
  };
  CHECK(why({.at = 0}).contains("there is no event 0"));
  CHECK(why({.at = 5}).contains("the journal has 1 to 4"));
  ForkOrder order{.at = 2};
  order.reply = nlohmann::json::object();
  CHECK(why(order).contains("is no answer of a port"));
  order.at = 4;
  CHECK(why(order).contains("is no answer of a port"));
  order.at = 3;
  order.reply = nlohmann::json::object({{"verdict", {{"corect", false}}}});
  CHECK(why(order).contains("no field 'verdict.corect'"));
  order.reply = nlohmann::json::object({{"verdict", {{"correct", "no"}}}});
  CHECK(why(order).contains("cannot be read"));
  order.reply = nlohmann::json::object({{"effect", 8}});
  CHECK(why(order).contains("'effect'"));
  order.reply = nlohmann::json::array();
  CHECK(why(order).contains("JSON object"));
}

}  // namespace
}  // namespace weft
