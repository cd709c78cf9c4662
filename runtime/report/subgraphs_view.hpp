// A run's subgraphs and their candidates, as the journal tells of them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/graph/subgraph.hpp"
#include "messages/vocabulary.hpp"
#include "runtime/report/calls_view.hpp"

namespace weft {

class SubgraphsView {
 public:
  explicit SubgraphsView(std::size_t candidates_max)
      : candidates_max_(candidates_max) {}

  /// The cut model: its subgraphs, in the plan's order.
  void take_plan(const Plan& plan);

  /// `calls` has seen the envelope.
  void take(const Envelope& envelope, const Message& message,
            const CallsView& calls);

  /// An array; times in microseconds since 1970.
  const nlohmann::json& subgraphs() const { return subgraphs_; }
  std::size_t left_out() const { return left_out_; }

 private:
  nlohmann::json& subgraph(const std::string& id);
  /// nullptr: the run has too many already.
  nlohmann::json* candidate(const std::string& subgraph, const Seed& seed);
  void take_seeds(const Envelope& envelope, const SeedsReply& reply,
                  const CallsView& calls);
  void take_result(const Envelope& envelope, const SeedResult& result);
  void take_end(const Envelope& envelope, const SubgraphDone& done);

  std::size_t candidates_max_;
  nlohmann::json subgraphs_ = nlohmann::json::array();
  std::map<std::string, std::size_t> by_id_;
  std::map<std::string, std::map<std::string, std::size_t>> candidates_;
  std::size_t count_ = 0;
  std::size_t left_out_ = 0;
};

/// The message's own fields; null where the body is no msgpack.
nlohmann::json fields_of(const Envelope& envelope);

}  // namespace weft
