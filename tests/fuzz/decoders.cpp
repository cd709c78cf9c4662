#include "tests/fuzz/decoders.hpp"

#include <cstdio>
#include <cstdlib>

#include "messages/vocabulary.hpp"
#include "runtime/bus/head_protocol.hpp"
#include "runtime/bus/node_protocol.hpp"

namespace weft::fuzz {
namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

wire::Hello hello_of(const std::string& name) {
  wire::Hello hello;
  hello.wire_min = wire::kWireVersionMin;
  hello.wire_max = wire::kWireVersion;
  hello.name = name;
  hello.incarnation = "a";
  hello.slots = {{"cpu", 2}};
  return hello;
}

/// What was read is written and read again as the same.
void header(std::string_view bytes) {
  const auto read = wire::decode_header(bytes);
  if (!read || std::holds_alternative<wire::Unknown>(*read)) return;
  const std::string again = wire::encode_header(*read);
  if (again.size() > wire::kHeaderBytesMax) return;
  const auto twice = wire::decode_header(again);
  require(twice.has_value(), "a header that was read cannot be read again");
  require(wire::encode_header(*twice) == again, "a header changes");
}

void body(std::string_view bytes) {
  for (const std::string& hash : wire::hashes_in(bytes)) {
    require(wire::is_hash(hash), "a hash that is none");
  }
}

/// One byte says which message, the rest is its body.
void message(std::string_view bytes) {
  static const std::vector<std::string> names = {
      "RunStart",  "BuildRequest", "BuildReply",   "CheckRequest", "CheckReply",
      "TimeReply", "ProbeReply",   "CancelEffect", "Capacities",   "NodeLost"};
  if (bytes.empty()) return;
  const std::string& name =
      names[static_cast<unsigned char>(bytes[0]) % names.size()];
  const auto read = decode(name, bytes.substr(1));
  if (read) require(!encode(*read).empty(), "a message without bytes");
}

/// Frames one after another: a length of two bytes before each, the first bit
/// of which says that the next one is its body.
template <class Take>
void each_frame(std::string_view bytes, Take take) {
  while (bytes.size() >= 2) {
    const auto high = static_cast<unsigned char>(bytes[0]);
    const auto low = static_cast<unsigned char>(bytes[1]);
    const std::size_t size = (high & 0x3fu) << 8 | low;
    bytes.remove_prefix(2);
    const std::string_view first = bytes.substr(0, size);
    bytes.remove_prefix(first.size());
    std::string second;
    if (high & 0x80u) {
      second = bytes.substr(0, size);
      bytes.remove_prefix(second.size());
    }
    take(first, std::move(second));
  }
}

/// A head with an honest node that has work, and a peer that says anything.
void head(std::string_view bytes) {
  HeadProtocol::Options options;
  options.run = "run";
  options.nodes_max = 8;
  HeadProtocol head(options);
  std::int64_t now_ms = 1'000;
  head.on_frame("honest", wire::encode_header(hello_of("n1")), "", now_ms);
  head.submit({1, "n1", "port/build", "BuildRequest",
               std::make_shared<const std::string>("body")},
              now_ms);
  (void)head.take_actions();
  each_frame(bytes, [&](std::string_view frame, std::string body) {
    now_ms += 50;
    head.on_frame("evil", frame, std::move(body), now_ms);
    head.tick(now_ms);
    for (auto& action : head.take_actions()) {
      require(!std::holds_alternative<head_action::Answered>(action),
              "a stranger answers what it was not asked");
      if (auto* check = std::get_if<head_action::Check>(&action)) {
        head.lacking(check->node, check->id, check->hashes, now_ms);
      }
      if (auto* load = std::get_if<head_action::Load>(&action)) {
        head.loaded(load->hash, nullptr);
      }
    }
  });
  require(head.nodes(now_ms).size() <= 8, "more nodes than there may be");
}

void node(std::string_view bytes) {
  NodeProtocol::Options options;
  options.hello = hello_of("n1");
  NodeProtocol node(options);
  std::int64_t now_ms = 1'000;
  each_frame(bytes, [&](std::string_view frame, std::string body) {
    now_ms += 50;
    node.on_frame(frame, std::move(body), now_ms);
    node.tick(now_ms);
    for (auto& action : node.take_actions()) {
      if (auto* work = std::get_if<node_action::Work>(&action)) {
        node.result(work->id, "BuildReply", "reply", {}, now_ms);
      }
      if (auto* load = std::get_if<node_action::Load>(&action)) {
        node.loaded(load->hash, nullptr);
      }
    }
  });
}

}  // namespace

const std::map<std::string, std::function<void(std::string_view)>>& decoders() {
  static const std::map<std::string, std::function<void(std::string_view)>>
      all = {{"header", header},
             {"body", body},
             {"message", message},
             {"head", head},
             {"node", node}};
  return all;
}

}  // namespace weft::fuzz
