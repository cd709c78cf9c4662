// Stands at the dispatcher's address in a run that only partitions its model
// (`weft explain PROBLEM`): ends the run when the plan is there.
#pragma once

#include <memory>

#include "actors/role.hpp"

namespace weft {

class PlanReceiver : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
};

/// make_role() with that role as the dispatcher.
std::unique_ptr<Role> make_role_to_partition(const Address& address);

}  // namespace weft
