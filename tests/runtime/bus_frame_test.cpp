// What frames are made of.
#include <doctest/doctest.h>

#include "messages/vocabulary.hpp"
#include "tests/runtime/bus_world.hpp"

namespace weft {
namespace {

TEST_CASE("a header of each kind is read as it was written, short or not") {
  const std::string hash(64, 'a');
  const std::vector<wire::Header> headers = {
      hello_of("n1", "a"),
      wire::Welcome{5, "run", 1, 2},
      wire::Refusal{"why", true},
      wire::Who{},
      wire::Beat{3},
      wire::Request{1, 2, 3, "port/build", "BuildRequest"},
      wire::Reply{1, 2, 3, "BuildReply", {{hash, 9}}},
      wire::Cancel{1, 2, 3},
      wire::Ack{1, {{1, 4}, {6, 6}}},
      wire::Want{hash, 7},
      wire::Chunk{hash, 0, 9},
      wire::Lack{hash},
      wire::Leave{1},
      wire::Bye{1}};
  CHECK(headers.size() == std::variant_size_v<wire::Header> - 1);
  for (const wire::Header& header : headers) {
    const std::string bytes = wire::encode_header(header);
    const auto read = wire::decode_header(bytes);
    REQUIRE(read);
    CHECK(read->index() == header.index());
    CHECK(wire::encode_header(*read) == bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK(!wire::decode_header(bytes.substr(0, size)));
    }
  }
}

TEST_CASE("a frame of a later wire is ignored and counted") {
  World world;
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, 99);
  world.head->on_frame("p", {buffer.data(), buffer.size()}, "", world.now);
  CHECK(world.head->counters().unknown == 1);
  CHECK(world.head->counters().protocol_errors == 0);
}

TEST_CASE("hashes are found wherever they are in a message") {
  CheckRequest request;
  request.subject.against = content_hash("a");
  request.subject.source = content_hash("b");
  auto found = wire::hashes_in(encode(request));
  std::set<std::string> expected = {content_hash("a"), content_hash("b")};
  CHECK(std::set<std::string>(found.begin(), found.end()) == expected);
  CHECK(wire::hashes_in("\xc1 no msgpack").empty());
}

TEST_CASE("a machine of which no kernel can be planned is no node's") {
  const auto error_of = [](auto&& change) -> std::string {
    wire::Hello hello = hello_of("n1", "a");
    hello.devices.push_back({"GPU-1", {"H200", "sm_90", 132}});
    change(hello);
    const auto read = wire::decode_header(wire::encode_header(hello));
    return read ? "" : read.error().message;
  };
  CHECK(error_of([](wire::Hello&) {}).empty());
  CHECK(
      error_of([](wire::Hello& h) { h.machine.cores = 0; }).contains("cores"));
  CHECK(error_of([](wire::Hello& h) {
          h.machine.cores = 1 << 30;
        }).contains("cores"));
  CHECK(error_of([](wire::Hello& h) {
          h.machine.vector_bytes = 0;
        }).contains("vector_bytes"));
  CHECK(error_of([](wire::Hello& h) {
          h.machine.l3_bytes = -1;
        }).contains("l3_bytes"));
  CHECK(error_of([](wire::Hello& h) {
          h.devices[0].facts.sms = -132;
        }).contains("sms"));
  CHECK(error_of([](wire::Hello& h) {
          h.devices[0].facts.memory_bytes = std::int64_t{1} << 62;
        }).contains("memory_bytes"));
}

}  // namespace
}  // namespace weft
