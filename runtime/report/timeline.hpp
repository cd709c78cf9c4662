// What a run's ports did when, and what was waited for: spans, made of requests
// and their replies, and of leases that were asked for and granted.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "messages/vocabulary.hpp"

namespace weft {

class Timeline {
 public:
  explicit Timeline(std::size_t spans_max) : spans_max_(spans_max) {}

  void take(const Envelope& envelope, const Message& message);

  /// {locations: [name], kinds: {kind: {count, us}}, spans: [[kind, location,
  /// start_us, length_us, subgraph, label, failure]], left_out}; times from
  /// `origin_us`, spans by their start. What has no answer yet lasts until
  /// `now_us`, and its failure is "open".
  nlohmann::json to_json(std::int64_t origin_us, std::int64_t now_us) const;

 private:
  struct Open {
    std::string kind;
    std::string location;
    std::string subgraph;
    std::string label;
    std::int64_t at_us = 0;
  };
  struct Span {
    Open what;
    std::int64_t until_us = 0;
    std::string failure;
  };

  void close(const Open& open, std::int64_t until_us, std::string failure);
  void take_lease(const Envelope& envelope, const Message& message);

  std::size_t spans_max_;
  std::map<std::uint64_t, Open> requests_;  // by seq
  std::map<std::pair<std::string, std::uint64_t>, Open> waits_;
  /// Which subgraph a call is for: its lease says so, its request does not.
  std::map<std::pair<std::string, std::uint64_t>, std::string> groups_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> kinds_;
  std::vector<Span> spans_;
  std::size_t left_out_ = 0;
};

/// "worker/sg_1f2e.compiler-0" -> "sg_1f2e"; "" where it is no subgraph's.
std::string subgraph_of(const Address& role);

/// "worker/sg_1f2e.compiler-0" -> "compiler-0"; "" where it is no seed's.
std::string seed_of(const Address& role);

}  // namespace weft
