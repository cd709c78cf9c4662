// Gives each distinct subgraph to an agent of its own, so many at a time and at
// the location with the fewest of them (all of its kernels are timed there);
// keeps each one's files in the run directory, and hands all verdicts to the
// composer. Where the run's time is limited, the dearest subgraphs go first,
// each is told when its share is over, and what is left then is not begun.
// Told that the head offers nothing, it waits for nodes. By the user's choice
// neighbours that won get an agent once more, as one piece: that is kept where
// it is faster than they are one by one, and may be fused again. Where the
// composer finds that no module is near to eager, or that a product is in no
// kernel of it, the plan's near cut is searched, too: what only it has.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

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
  void begin(const Dispatch& dispatch, Context& context);
  void start_agents(Context& context);
  void start_agent(const Subgraph& subgraph, Context& context);
  void limit_time(Context& context);
  void end_without_node(Context& context);
  bool judges(const Capacities& offer) const;
  void skip(const Subgraph& subgraph, const std::string& why, Context& context);
  std::string budget_words() const;
  void limit_kernels(std::size_t subgraphs, const Context& context);
  std::int64_t left_ms(const Context& context) const;
  std::map<Location, std::optional<Gpu>> locations() const;
  void assign_location(OptimizeSubgraph& work) const;
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
  int kernels_each_ = 0;  ///< with little time; 0: as many as are asked for
  SearchShares shares_;
  std::map<std::uint64_t, std::string> alarms_;  ///< whose share is over then
  std::map<std::string, SubgraphDone> done_;
  std::map<Location, Capacities> offers_;   ///< beside the head's own
  std::map<std::string, Location> placed_;  ///< subgraphs that are at work
  bool spares_head_ = false;
  std::uint64_t node_alarm_ = 0;  ///< ends the wait for a node; 0: no wait
  Plan apart_;                    ///< the cut before `fusing_`
  Fusing fusing_;     ///< what is asked for as one, until all has its verdict
  FusedParts fused_;  ///< what was kept of that
  std::set<std::string> tried_to_fuse_;  ///< pieces, kept or not
  bool summary_written_ = false;         ///< or on its way
  bool is_composed_ = false;             ///< and the near cut may be asked for
  std::optional<std::set<std::string>>
      eager_contractions_;  ///< asked for: what is new in it
  bool over_ = false;
};

}  // namespace weft
