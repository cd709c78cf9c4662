// Finds the best kernel for one subgraph: asks the sources for seeds, has each
// verified by a worker of its own, and has the fastest right one timed once
// more, longer and beside torch.compile. A kernel that can hardly be bettered
// stops the other seeds. Ends in exactly one SubgraphDone.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

class SubgraphAgent : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;

 private:
  void begin(const OptimizeSubgraph& work, Context& context);
  void seeds_came(const SeedsReply& reply, Context& context);
  void result_came(const SeedResult& result, Context& context);
  void stop_others(Context& context);
  void decide(Context& context);
  void finish(std::string outcome, std::string reason, Context& context);
  bool is_near_floor(const SeedResult& result) const;
  const SeedResult* fastest() const;
  const SeedResult* first_right() const;

  std::optional<OptimizeSubgraph> work_;
  std::set<std::string> sources_open_;
  std::map<std::string, Seed> seeds_;  ///< by id
  std::map<std::string, SeedResult> results_;
  std::string final_;      ///< the seed in its last timing
  std::string complaint_;  ///< a source that failed said this
  bool settled_ = false;   ///< no further seed is waited for
  bool over_ = false;
};

}  // namespace weft
