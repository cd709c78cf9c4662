// Turns the source of a run into a plan: has a problem file's graph captured,
// or takes a graph that was captured already, cuts it into subgraphs, and hands
// the plan to the dispatcher. By the user's choice a language model proposes
// the cut; what cannot be is refused with the reason, and asked for again.
// With --dynamic-batch (or -dim) the problem is captured at several sizes, and
// the cuts are held against each other: what grows with them is found so.
#pragma once

#include <map>
#include <optional>

#include "actors/llm/calls.hpp"
#include "actors/pending_effects.hpp"
#include "actors/role.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

class Extractor : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;
  /// The model's partition, once it is made.
  const Plan& cut() const { return cut_; }

 private:
  void begin(const RunStart& start, Context& context);
  void report_capacities(Context& context);
  void capture(Context& context);
  void captured(const EffectResult& end, Context& context);
  void capture_sizes(const std::string& graph_blob, Context& context);
  void captured_sizes(const EffectResult& end, Context& context);
  Failure without_sizes() const;
  Result<Sizes> sizes_in(const Graph& graph) const;
  /// Captures these texts of the problem, and returns the effect.
  std::uint64_t start_capture(const std::vector<std::string>& problems,
                              Context& context);
  void cut(const std::string& graph_blob, const std::string& how,
           Context& context);
  void ask_grouping(const std::string& fault, Context& context);
  void grouped(const LlmEnd& end, Context& context);
  void take_proposal(Plan proposal);
  void write_plan(Context& context);
  void written(const EffectResult& end, Context& context);
  void out_of_time(Context& context);
  void finish(const Failure& failure, Context& context);

  std::optional<RunStart> run_;
  PendingEffects effects_;
  std::uint64_t capture_ = 0;  ///< the capture's effect
  /// If sizes are symbols: their values in the problem, the other values that
  /// another effect captures it at, and the graphs (sizes → blob).
  Sizes sizes_;
  std::vector<Sizes> samples_;
  std::uint64_t capture_of_samples_ = 0;
  std::map<Sizes, std::string> graphs_;
  Plan cut_;
  std::string plan_;            ///< blob
  std::int64_t begun_us_ = 0;   ///< 0: the run's time has no limit
  std::uint64_t deadline_ = 0;  ///< the timer of its end
  bool is_over_ = false;        ///< the plan was handed on, or the run ended
  LlmCalls calls_{LlmCalls::kFirstCallNumber};
  int proposals_ = 0;  ///< asked for
};

}  // namespace weft
