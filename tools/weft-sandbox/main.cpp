// weft-sandbox: runs one command that is not trusted.
// docs/explanation/security.md.
#include <linux/close_range.h>
#include <unistd.h>

#include <cstdio>

#include "inside.hpp"
#include "runtime/sandbox/order.hpp"
#include "self_test.hpp"
#include "supervise.hpp"

int main(int count, char** words) {
  using weft::SandboxOrder;
  // Whatever the starter left open is not for the box.
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  const auto order = weft::read_order(
      {words + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
  if (!order) {
    std::fprintf(stderr, "%s\n", order.error().message.c_str());
    return weft::kExitNotStarted;
  }
  if (order->step == SandboxOrder::Step::self_test) return weft::self_test();
  if (order->request.command.empty()) {
    std::fprintf(stderr, "weft-sandbox: no command after '--'\n");
    return weft::kExitNotStarted;
  }
  if (order->step == SandboxOrder::Step::inside) {
    return weft::run_inside(*order);
  }
  return weft::supervise(*order);
}
