// Starts an agent for each distinct subgraph, and hands all verdicts to the
// composer. The number of agents at a time is limited. An agent's location is
// the one with the fewest agents; all kernels of the subgraph are timed there.
// The files of each subgraph are kept in the run directory.
//
// * If the run's time is limited, the most expensive subgraphs go first. Each
//   agent is stopped when its share is over. The rest is not begun.
// * If the head offers no resources, the dispatcher waits for nodes.
// * Agents get the names of nodes that join later. If an agent has no location
//   left, it gets the next one, or ends after RunStart::node_wait_ms.
// * With --llm-fuses, neighbours that won get one agent as one piece. The piece
//   is kept if it is faster than its parts. It may be fused again.
// * The composer may find that no module is near to eager, or that no kernel
//   has a product. Then subgraphs that only the plan's eager contractions
//   partition has are searched, too.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/agent_locations.hpp"
#include "actors/llm/fusing.hpp"
#include "actors/pending_effects.hpp"
#include "actors/role.hpp"
#include "actors/search_time.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

class Dispatcher : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

 private:
  void take_offer(const Capacities& offer, Context& context);
  void lose_node(const NodeLost& loss, Context& context);
  void offers_changed(Context& context);
  void begin(const Dispatch& dispatch, Context& context);
  void start_agents(Context& context);
  void start_agent(const Subgraph& subgraph, Context& context);
  void limit_time(Context& context);
  void end_without_node(Context& context);
  void skip_rest(Context& context);
  void mark_gone(const Location& location);
  void end_stranded(const std::string& subgraph, Context& context);
  bool judges(const Capacities& offer) const;
  void skip(const Subgraph& subgraph, const std::string& why, Context& context);
  std::string budget_words() const;
  std::string no_node_words() const;
  void limit_kernels(std::size_t subgraphs, const Context& context);
  int kernels_for(const Subgraph& subgraph, const Context& context) const;
  std::int64_t left_ms(const Context& context) const;
  DeviceLocations locations() const;
  std::optional<Gpu> assign_location(OptimizeSubgraph& work) const;
  void ask_to_fuse(OptimizeSubgraph& work) const;
  std::size_t agents_max() const;
  void finished(const SubgraphDone& done, Context& context);
  void write(const Subgraph& subgraph, std::vector<FileToWrite> files,
             Context& context);
  bool is_at_work() const;
  void hand_over(Context& context);
  void search_eager_contractions(const SearchEagerContractions& ask,
                                 Context& context);
  bool begin_fusing(Context& context);
  void keep_apart();
  void settle_fusing(Context& context);
  bool write_summary(Context& context);
  void give_up(const Failure& failure, Context& context);

  std::optional<Dispatch> dispatch_;
  Plan plan_;
  PendingEffects effects_;
  std::vector<std::size_t> order_;    ///< of plan_.subgraphs
  std::size_t next_ = 0;              ///< in it; those before it were started
  std::size_t working_ = 0;           ///< agents without a verdict yet
  std::int64_t search_until_us_ = 0;  ///< 0: there is no limit
  std::int64_t captured_us_ = 0;      ///< where there is one
  std::size_t agents_limit_ = 0;      ///< with little time; 0: there is none
  int kernels_each_ = 0;              ///< Kernels per subgraph; 0: no limit.
  SearchShares shares_;
  std::map<std::uint64_t, std::string> alarms_;  ///< Ends of shares, by timer.
  std::map<std::string, SubgraphDone> done_;
  std::map<Location, Capacities> offers_;  ///< Without the head's own.
  AgentLocations agents_;
  bool spares_head_ = false;
  std::uint64_t node_alarm_ = 0;  ///< Ends the wait for a node; 0: no wait.
  Plan apart_;                    ///< The partition before `fusing_`.
  Fusing fusing_;     ///< Pieces in search, until each has its verdict.
  FusedParts fused_;  ///< Fused pieces that were kept.
  std::set<std::string> tried_to_fuse_;  ///< All pieces that were tried.
  bool summary_written_ = false;         ///< Written, or being written.
  bool is_composed_ = false;             ///< The composer has its request.
  /// New subgraphs of the eager contractions partition, once it is asked for.
  std::optional<std::set<std::string>> eager_contractions_;
  bool over_ = false;
};

}  // namespace weft
