// A source of seeds: TorchInductor, PyTorch's own compiler. Its code for a
// subgraph is one seed, judged as any other: where it is the fastest that is
// right, the subgraph is no slower than torch.compile makes it. What it wrote
// comes from port/build, where it works in the sandbox as other compilers do.
// One role serves all subgraphs; with a limited time few are compiled at once
// at a node, the dearest first: builds of our own take a tenth as long.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/pending_effects.hpp"
#include "actors/role.hpp"

namespace weft {

/// As given to --seeds, and in Seed::origin.
inline constexpr const char* inductor_source = "inductor";

class InductorSeeds : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

 private:
  struct Asked {
    Address by;
    std::string subgraph;
    std::string node;
  };
  struct Waiting {
    Address by;
    OptimizeSubgraph work;
  };
  bool fits_in_queue(const OptimizeSubgraph& work) const;
  void stop(const Address& by, const std::string& reason, Context& context);
  bool begin_next(Context& context);
  void begin(const Waiting& next, Context& context);
  void answered(const EffectResult& end, Context& context);

  PendingEffects effects_;
  std::map<std::uint64_t, Asked> asked_;  ///< by effect
  std::vector<Waiting> waiting_;
};

}  // namespace weft
