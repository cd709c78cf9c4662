// Gives each distinct subgraph to an agent of its own, so many at a time and at
// the place with the fewest of them (all of its kernels are timed there); keeps
// each one's files in the run directory, and hands all verdicts to the
// composer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/errands.hpp"
#include "actors/role.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

class Dispatcher : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;

 private:
  void begin(const Dispatch& dispatch, Context& context);
  void start_agents(Context& context);
  void start_agent(const Subgraph& subgraph, Context& context);
  void place(OptimizeSubgraph& work);
  std::size_t agents_max() const;
  void finished(const SubgraphDone& done, Context& context);
  void write(const Subgraph& subgraph, std::vector<FileToWrite> files,
             Context& context);
  void hand_over(Context& context);
  void give_up(const Failure& failure, Context& context);

  std::optional<Dispatch> dispatch_;
  Plan plan_;
  Errands errands_;
  std::size_t next_ = 0;  ///< subgraphs whose agents were started
  std::map<std::string, SubgraphDone> done_;
  std::map<Place, Capacities> offers_;   ///< beside the head's own
  std::map<std::string, Place> placed_;  ///< subgraphs that are at work
  bool over_ = false;
};

}  // namespace weft
