#include "actors/device.hpp"

#include <doctest/doctest.h>

#include "tests/compiler/graph_builder.hpp"

namespace weft {

TEST_CASE("what is for any batch gets memory for the largest it is judged at") {
  const auto at_batch = [](std::int64_t batch) {
    return GraphBuilder()
        .input("x", dense({batch, 1 << 20}))
        .outputs({"x"})
        .graph;
  };
  Graph graph = at_batch(64);
  CHECK(device_bytes(graph) < device_bytes(at_batch(144)));
  graph.symbolic_shapes = {{64}, {{"/nodes/0/values/0/shape/0", {1}}}};
  CHECK(device_bytes(graph) == device_bytes(at_batch(144)));
}

}  // namespace weft
