// A source of seeds: the built-in compiler. One role serves all subgraphs.
// docs/development/adding-a-seed-source.md says how to add another source.
#pragma once

#include "actors/role.hpp"
#include "compiler/targets.hpp"

namespace weft {

/// The compiler's candidates for a subgraph, as a run with these options asks
/// for them.
Result<std::vector<TargetSource>> compiler_sources(const Subgraph& subgraph,
                                                   const RunOptions& options,
                                                   const Machine& machine);

class CompilerSeeds : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
};

}  // namespace weft
