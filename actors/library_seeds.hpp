// A source of seeds: the kernel library, which knows the best kernels of
// earlier runs. It gives one seed or none, what is remembered of it, and, for a
// language model's prompt, what won for similar subgraphs. One role serves all
// subgraphs. A library that cannot be read is a note, once.
#pragma once

#include <map>
#include <string>

#include "actors/pending_effects.hpp"
#include "actors/role.hpp"

namespace weft {

class LibrarySeeds : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

 private:
  struct Asked {
    Address by;
    std::string subgraph;
  };
  void look_up(const Address& by, const OptimizeSubgraph& work,
               Context& context);
  void found(const EffectResult& end, Context& context);

  PendingEffects effects_;
  std::map<std::uint64_t, Asked> asked_;  ///< by effect
  bool noted_ = false;                    ///< that it cannot be used
};

}  // namespace weft
