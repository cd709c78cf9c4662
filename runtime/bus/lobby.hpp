// Listens for nodes before a run begins: the head that cannot judge kernels
// itself must know which device classes there are before it says what the run
// is for. Nobody is answered: a node says hello again until a head lets it in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/bus/frame.hpp"
#include "runtime/bus/keys.hpp"

namespace weft {

/// The nodes that were heard of late, by name. Pure: the time comes in.
class HeardNodes {
 public:
  explicit HeardNodes(std::int64_t silence_ms) : silence_ms_(silence_ms) {}
  void on_frame(std::string_view header, std::int64_t now_ms);
  /// In the order of their names.
  std::vector<wire::Hello> present(std::int64_t now_ms) const;
  /// Time since the last new node.
  std::int64_t quiet_ms(std::int64_t now_ms) const { return now_ms - new_ms_; }

 private:
  struct Heard {
    wire::Hello hello;
    std::int64_t at_ms = 0;
  };
  std::int64_t silence_ms_;
  std::int64_t new_ms_ = 0;
  std::map<std::string, Heard> heard_;
  std::set<std::string> known_;  ///< Incarnations, also of nodes that left.
};

struct LobbyOptions {
  std::string endpoint;
  BusKeys keys;
  std::int64_t silence_ms = 15'000;
  /// So long after the last new node the choice is made: nodes that a scheduler
  /// starts together come within seconds.
  std::int64_t gather_ms = 3'000;
  /// With the address that was bound.
  std::function<void(const std::string&)> on_listening;
};

struct Gathered {
  std::string endpoint;  ///< with the port that was bound
  std::vector<wire::Hello> nodes;
};

/// Waits until `is_enough` of the nodes that are there. wrong_input: the
/// address cannot be used. failed: stopped.
Result<Gathered> gather_nodes(
    const LobbyOptions& options,
    const std::function<bool(const std::vector<wire::Hello>&)>& is_enough,
    const std::stop_token& stop);

}  // namespace weft
