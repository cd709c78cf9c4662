// A source of seeds: the built-in compiler. One role serves all subgraphs.
// docs/development/adding-a-seed-source.md says how to add another source.
#pragma once

#include "actors/role.hpp"

namespace weft {

class CompilerSeeds : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
};

}  // namespace weft
