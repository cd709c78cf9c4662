#include "messages/vocabulary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace weft;

namespace {

template <std::size_t... I>
void each_round_trips(std::index_sequence<I...>) {
  (
      [] {
        const Message message = std::variant_alternative_t<I, AnyMessage>{};
        const auto back = decode(name_of(message), encode(message));
        REQUIRE(back.has_value());
        CHECK(*back == message);
      }(),
      ...);
}

/// Whether a map in there has both a field's name of today and its earlier one.
bool has_both_names(const nlohmann::json& value) {
  if (value.is_object()) {
    for (const auto& name : earlier::kFields) {
      if (value.contains(name.now) && value.contains(name.before)) return true;
    }
  }
  return value.is_structured() && std::ranges::any_of(value, &has_both_names);
}

template <std::size_t... I>
std::vector<nlohmann::json> default_bodies(std::index_sequence<I...>) {
  return {nlohmann::json::from_msgpack(
      encode(std::variant_alternative_t<I, AnyMessage>{}))...};
}

std::string packed_map(const std::map<std::string, std::string>& fields) {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, fields);
  return {buffer.data(), buffer.size()};
}

}  // namespace

TEST_CASE("every message reads back equal") {
  each_round_trips(std::make_index_sequence<std::variant_size_v<AnyMessage>>());
}

TEST_CASE("a filled message reads back equal") {
  SubgraphDone done;
  done.subgraph = "sg_1";
  done.best.verdict.controls = {{"zeros", true}, {"stale", false}};
  done.best.verdict.mismatches = {{"y", {3, 4}, "5", "nan", "inf"}};
  done.best.timing.candidate = {1.5, 1.25, 2, 30};
  done.best.timing.built = {{"rows", {{"registers", 32}}}, {"empty", {}}};
  const auto back = decode("SubgraphDone", encode(done));
  REQUIRE(back.has_value());
  CHECK(std::get<SubgraphDone>(*back) == done);
}

TEST_CASE("an unknown field is ignored and a missing one has its default") {
  const auto back = decode(
      "Progress", packed_map({{"text", "hello"}, {"from_the_future", "x"}}));
  REQUIRE(back.has_value());
  CHECK(std::get<Progress>(*back).text == "hello");
  CHECK(std::get<Progress>(*back).stage.empty());
}

TEST_CASE("no struct has a field by its name of today and by an earlier one") {
  CHECK(has_both_names({{"a", {{{"location", ""}, {"place", ""}}}}}));
  for (const auto& body : default_bodies(
           std::make_index_sequence<std::variant_size_v<AnyMessage>>())) {
    CHECK_MESSAGE(!has_both_names(body), body.dump());
  }
}

TEST_CASE("earlier names of types, fields and words are read") {
  const auto search = decode("SearchNearCut", packed_map({}));
  REQUIRE(search.has_value());
  CHECK(name_of(*search) == "SearchEagerContractions");

  const auto denied = decode("LeaseDenied", [] {
    msgpack::sbuffer buffer;
    msgpack::pack(buffer, std::map<std::string, bool>{{"lost", true}});
    return std::string(buffer.data(), buffer.size());
  }());
  REQUIRE(denied.has_value());
  CHECK(std::get<LeaseDenied>(*denied).location_lost);

  const auto done = decode("SubgraphDone", packed_map({{"outcome", "lost"}}));
  REQUIRE(done.has_value());
  CHECK(std::get<SubgraphDone>(*done).outcome == "not_faster");

  // A word is an earlier one in its own field only.
  const auto progress = decode("Progress", packed_map({{"text", "lost"}}));
  REQUIRE(progress.has_value());
  CHECK(std::get<Progress>(*progress).text == "lost");
}

TEST_CASE("an earlier field is not read where there is one of today's name") {
  const auto back =
      decode("LeaseGranted", packed_map({{"place", "n1"}, {"location", "n2"}}));
  REQUIRE(back.has_value());
  CHECK(std::get<LeaseGranted>(*back).location == "n2");
}

TEST_CASE("a message of a weft that knew no locations means the head") {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, std::map<std::string, std::uint64_t>{{"ticket", 7}});
  const auto back = decode("LeaseGranted", {buffer.data(), buffer.size()});
  REQUIRE(back.has_value());
  CHECK(std::get<LeaseGranted>(*back) == LeaseGranted{7, ""});
}

TEST_CASE("a verdict of a weft that reported no elements has none") {
  msgpack::sbuffer buffer;
  msgpack::packer packer(buffer);
  packer.pack_map(2);
  packer.pack(std::string("effect"));
  packer.pack(std::uint64_t{7});
  packer.pack(std::string("verdict"));
  packer.pack(std::map<std::string, std::string>{{"kind", "wrong"}});
  const auto back = decode("CheckReply", {buffer.data(), buffer.size()});
  REQUIRE(back.has_value());
  const auto& reply = std::get<CheckReply>(*back);
  CHECK(reply.verdict.kind == "wrong");
  CHECK(reply.verdict.mismatches.empty());
}

TEST_CASE("an address says which port it is, and at which location") {
  CHECK(location_of("port/build") == "");
  CHECK(location_of("port/build@n1") == "n1");
  CHECK(location_of("port/verify@n1/GPU-8a5c") == "n1/GPU-8a5c");
  CHECK(port_of("port/verify@/GPU-8a5c") == "port/verify");
  CHECK(kind_of("port/verify@n1/GPU-8a5c") == "port");
  CHECK(node_of("n1/GPU-8a5c") == "n1");
  CHECK(device_of("n1/GPU-8a5c") == "GPU-8a5c");
  CHECK(node_of("/GPU-8a5c") == "");
  CHECK(device_of("n1") == "");
}

TEST_CASE("an unknown type is damage") {
  const auto back = decode("Telegram", packed_map({}));
  REQUIRE(!back.has_value());
  CHECK(back.error().code == ErrorCode::damaged);
  CHECK(back.error().message.find("Telegram") != std::string::npos);
}

TEST_CASE("a body that is cut short is damage") {
  const std::string body = encode(Message{Progress{"sg", "seeds", "text"}});
  for (std::size_t size = 0; size + 1 < body.size(); ++size) {
    const auto back =
        decode("Progress", std::string_view(body).substr(0, size));
    REQUIRE(!back.has_value());
    CHECK(back.error().code == ErrorCode::damaged);
  }
}

TEST_CASE("a field of the wrong type is damage") {
  CHECK(
      !decode("RunFinished", packed_map({{"exit_code", "zero"}})).has_value());
}

TEST_CASE("a body prints as JSON") {
  CHECK(body_to_json(packed_map({{"a", "b"}})) == R"({"a":"b"})");
}
