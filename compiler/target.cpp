#include "compiler/target.hpp"

#include <algorithm>

#include "compiler/cpu.hpp"
#include "compiler/triton.hpp"

namespace weft {

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {cpu_target(), triton_target()};
  return list;
}

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

}  // namespace weft
