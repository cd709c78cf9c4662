#include "actors/plan_receiver.hpp"

#include "actors/roster.hpp"

namespace weft {

void PlanReceiver::receive(const Address&, const Message& message,
                           Context& context) {
  if (std::holds_alternative<Dispatch>(message)) {
    context.send(address::user, RunFinished{0, "partitioned"});
  }
}

std::unique_ptr<Role> make_role_to_partition(const Address& address) {
  if (address == address::dispatcher) return std::make_unique<PlanReceiver>();
  return make_role(address);
}

}  // namespace weft
