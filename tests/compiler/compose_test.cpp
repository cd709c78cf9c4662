#include "compiler/compose/compose.hpp"

#include <doctest/doctest.h>

#include "compiler/fusion/partition.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

constexpr std::string_view kProblem = R"py(import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3)])

    def forward(self, x, scale, mask=None):
        return torch.relu(x + self.layers[0].bias) @ x
)py";

const TensorType k3x3 = dense({3, 3});

Graph sample() {
  GraphBuilder b;
  b.placeholder(NodeKind::parameter, "w", dense({3}), "layers.0.bias");
  b.placeholder(NodeKind::buffer, "n", dense({3}), "seen");
  b.input("x", k3x3).input("scale", dense({}));
  b.graph.nodes.back().values = {std::nullopt};
  b.graph.nodes.back().args.push_back(Arg{2.0});
  b.call("s", "add", {"x", "w"}, k3x3).call("r", "relu", {"s"}, k3x3);
  b.call("m", "mm", {"r", "x"}, k3x3);
  b.graph.mutations = {{"seen", false, "w"}};
  b.graph.output_template = "({0}, {{'a': {0}}})";
  b.graph.training = false;
  b.graph.parts = {
      {"", ".Model", {}, 1, {{"_Model__n", "2"}}, {}, {}},
      {"layers", "torch.nn.ModuleList", {}, 1, {}, {}, {}},
      {"layers.0", ".Model.Own", {"log"}, 0, {{"p", "0.5"}}, {"fwd"}, {"b"}}};
  return b.outputs({"m"}).graph;
}

Plan cut(const Graph& graph) {
  return partition(graph, [](const Graph&, const Node& call) {
    return call.target.find("mm") == std::string::npos;
  });
}

std::string composed() {
  const Plan plan = cut(sample());
  const auto text = compose_source(
      kProblem, plan,
      {{plan.subgraphs.at(0).id, {"int x;\n", "plain", find_target("cpu")}}});
  REQUIRE(text);
  return *text;
}

void check_has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("a module without a kernel has what its guards read") {
  Plan plan = cut(sample());
  plan.fused_attention_calls = {"attention"};
  for (const char* name : {"gpu", "triton"}) {
    const auto text = compose_source(kProblem, plan, {}, find_target(name));
    REQUIRE(text);
    check_has(*text, "_weft_interpreted)");
    check_has(*text, "\n_weft_interpreted = ");
  }
}

TEST_CASE("without kernels the composition is the problem, renamed") {
  const auto text = compose_source(kProblem, cut(sample()), {});
  REQUIRE(text);
  CHECK(text->find("class ModelNew(torch.nn.Module)") != std::string::npos);
  CHECK(text->find("forward_reference") == std::string::npos);
  CHECK(text->size() == kProblem.size() + 3);
}

TEST_CASE("a kernel is called where its calls stood, the rest stays ATen") {
  const std::string id = cut(sample()).subgraphs.at(0).id;
  const std::string text = composed();
  check_has(text, "_t_r = _weft_" + id + "(x, _t_w)\n");
  check_has(text, "_t_m = _weft_aten_mm_default(_t_r, x)\n");
  check_has(text, "_weft_aten_mm_default = torch.mm\n");
  check_has(text, "r'''int x;\n'''");
}

TEST_CASE("values are dropped after their last use") {
  check_has(composed(), "(_t_r, x)\n            del _t_r\n");
}

TEST_CASE("parameters are read at each call, module by module") {
  const std::string text = composed();
  check_has(text,
            "_weft_modules = (\n"
            "    ((\"layers\", \"0\"), (\n"
            "        (\"bias\", (3,), (1,), torch.float32),\n"
            "    )),\n"
            ")\n");
  check_has(text, "        _t_state = _weft_state(self)\n");
  check_has(text, "        and _t_state is not None\n");
  check_has(text, "        (_t_w,) = _t_state\n");
}

/// x + 1, and three buffers that become `value`, of x or of themselves.
std::string with_buffers(const std::string& value) {
  GraphBuilder b;
  b.input("x", k3x3);
  for (const char* name : {"a", "b", "c"}) {
    b.placeholder(NodeKind::buffer, name, k3x3, "norm." + std::string(name));
  }
  b.call("s", "add.Tensor", {"x"}, k3x3, {Arg{std::int64_t{1}}});
  for (const char* name : {"a", "b", "c"}) {
    const std::string made = std::string("new_") + name;
    b.call(made, "add.Tensor", {value.empty() ? name : value}, k3x3,
           {Arg{std::int64_t{name[0] == 'c' ? 2 : 1}}});
    b.graph.mutations.push_back({"norm." + std::string(name), false, made});
  }
  b.graph.output_template = "{0}";
  const Plan plan = partition(
      b.outputs({"s"}).graph,
      [](const Graph&, const Node& call) { return call.name == "s"; });
  const auto text = compose_source(
      kProblem, plan,
      {{plan.subgraphs.at(0).id, {"int x;\n", "plain", find_target("cpu")}}});
  REQUIRE(text);
  return *text;
}

TEST_CASE("buffers that count calls are added to where they are") {
  const std::string text = with_buffers("");
  check_has(text, "torch._foreach_add_([_t_a, _t_b], 1)\n");
  check_has(text, "torch._foreach_add_([_t_c], 2)\n");
  CHECK_FALSE(text.contains("_t_new_a"));
}

TEST_CASE("several buffers are written in one call") {
  check_has(with_buffers("x"),
            "torch._foreach_copy_([self.norm.a, self.norm.b, self.norm.c], "
            "[_t_new_a, _t_new_b, _t_new_c])\n");
}

TEST_CASE("anything but what was captured goes to the original forward") {
  const std::string text = composed();
  check_has(text, "if not (mask is _weft_defaults[\"mask\"]\n");
  check_has(text, "and _weft_fits(x, (3, 3), (3, 1), torch.float32)\n");
  check_has(text, "and type(scale) is type(2.0) and scale == 2.0\n");
  check_has(text, "return _weft_pass_on(self.forward_reference, (\n");
  check_has(text, "\"scale is not 2.0\"),\n");
  check_has(text, "))(x, scale, mask)\n");
}

TEST_CASE("a call that wants a gradient gets kernels with one") {
  const std::string text = composed();
  check_has(text,
            "        if torch.is_grad_enabled() and "
            "_weft_wants_gradient(x, *_t_state):\n"
            "            return _weft_with_gradient(self, [x, *_t_state], "
            "(x, scale, mask, ), {})\n");
  check_has(text, "_weft_written = frozenset((\"seen\", ))\n");
  check_has(text, "_weft_read_and_written = frozenset(())\n");
  check_has(text, "_weft_draws = False\n");
  check_has(text, "_weft_unchanged = _weft_as_captured\n");
}

TEST_CASE("one that writes its arguments goes to the original forward") {
  Graph graph = sample();
  graph.mutations.push_back({"x", true, "r"});
  const Plan plan = cut(graph);
  const auto text = compose_source(
      kProblem, plan,
      {{plan.subgraphs.at(0).id, {"int x;\n", "plain", find_target("cpu")}}});
  REQUIRE(text);
  check_has(*text,
            "and not (torch.is_grad_enabled()"
            " and _weft_wants_gradient(x, *_t_state))");
  CHECK_FALSE(text->contains("_weft_with_gradient"));
}

TEST_CASE("a call that is watched goes to the original forward") {
  const std::string text = composed();
  check_has(text,
            "if torch.compiler.is_compiling() or _weft_watched():\n"
            "            return self.forward_reference(x, scale, mask)\n");
}

TEST_CASE("the mode is asked where no part says that it reads it") {
  Graph graph = sample();
  graph.parts.clear();
  const Plan plan = cut(graph);
  const auto text = compose_source(
      kProblem, plan,
      {{plan.subgraphs.at(0).id, {"int x;\n", "plain", find_target("cpu")}}});
  REQUIRE(text);
  check_has(*text, "if not (not self.training\n");
}

TEST_CASE("so does a part that is another than was captured") {
  const std::string text = composed();
  check_has(text, "        and _weft_as_captured(self)):\n");
  check_has(text,
            "_weft_parts = (\n"
            "    (0, \"\", \".ModelNew\", (), 1,\n"
            "     {\"_ModelNew__n\": \"2\"},\n     (), ()),\n"
            "    (0, \"layers\", \"torch.nn.ModuleList\", (), 1,\n"
            "     {},\n     (), ()),\n"
            "    (1, \"0\", \".ModelNew.Own\", (\"log\",), 0,\n"
            "     {\"p\": \"0.5\"},\n     (\"fwd\",), (\"b\",)),\n)\n");
}

TEST_CASE("a graph that says nothing of parts has none to look at") {
  CHECK_FALSE(with_buffers("").contains("_weft_as_captured"));
}

TEST_CASE("autocast on the kernels' device goes to the original forward") {
  check_has(composed(), "and not torch.is_autocast_enabled(\"cpu\")\n");
  CHECK_FALSE(composed().contains("is_autocast_enabled(\"cuda\")"));
}

TEST_CASE("buffers get their new values, taken aside if they are no new ones") {
  const std::string text = composed();
  check_has(text, "_t_w_aside = _t_w.clone()\n");
  check_has(text, "self.seen.copy_(_t_w_aside)\n");
}

TEST_CASE("the result has the captured form") {
  check_has(composed(), "return (_t_m, {'a': _t_m})\n");
}

TEST_CASE("locals avoid the names of forward's arguments") {
  std::string problem(kProblem);
  problem.replace(problem.find("scale"), 5, "_t_m");
  const Plan plan = cut(sample());
  const auto text = compose_source(
      problem, plan,
      {{plan.subgraphs.at(0).id, {"int x;\n", "plain", find_target("cpu")}}});
  REQUIRE(text);
  check_has(*text, "_t__m = _weft_aten_mm_default");
}

TEST_CASE("a plan survives the way to JSON and back") {
  const Plan plan = cut(sample());
  const std::string json = plan_to_json(plan);
  const auto again = parse_plan(json);
  REQUIRE(again);
  CHECK(plan_to_json(*again) == json);
  CHECK(again->model == plan.model);
}

TEST_CASE("a damaged plan is refused") {
  std::string json = plan_to_json(cut(sample()));
  CHECK_FALSE(parse_plan("[]"));
  CHECK_FALSE(parse_plan(json.substr(1)));
  json.replace(json.find("\"subgraph\":\"sg_"), 15, "\"subgraph\":\"no_");
  const auto plan = parse_plan(json);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == ErrorCode::damaged);
}

TEST_CASE("subgraphs.json has KernelAgent's fields and ours") {
  const std::string json = subgraphs_json(cut(sample()));
  for (const char* field :
       {"id", "type", "data_layout", "dtype", "ops", "inputs", "output_shape",
        "weights_fused", "weights_original", "count", "where", "source",
        "signature", "input_types", "output_types", "placements"}) {
    check_has(json, "\"" + std::string(field) + "\": ");
  }
  check_has(json, "\"layers.0.bias\": [");
}

}  // namespace
}  // namespace weft
