#include "compiler/graph/graph.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

constexpr std::string_view kSmall = R"json({
  "version": 1, "training": false,
  "nodes": [
    {"name": "x", "kind": "input", "target": "x", "args": [], "kwargs": {},
     "values": [{"dtype": "float32", "shape": [2, 3], "stride": [3, 1]}],
     "is_tuple": false, "source": ""},
    {"name": "m", "kind": "call", "target": "aten.max.dim",
     "args": [{"node": "x"}, 1, true], "kwargs": {},
     "values": [{"dtype": "float32", "shape": [2, 1], "stride": [1, 1]},
                {"dtype": "int64", "shape": [2, 1], "stride": [1, 1]}],
     "is_tuple": true, "source": "p.py:3"},
    {"name": "v", "kind": "call", "target": "getitem",
     "args": [{"node": "m"}, 0],
     "values": [{"dtype": "float32", "shape": [2, 1], "stride": [1, 1]}]},
    {"name": "c", "kind": "call", "target": "aten.clamp.default",
     "args": [{"node": "v"}, 1.0, {"float": "inf"}],
     "kwargs": {"dtype": {"dtype": "float32"}, "l": [1, [null, "a"]]},
     "values": [{"dtype": "float32", "shape": [2, 1], "stride": [1, 1]}]}],
  "outputs": ["c"], "output_template": "({0},)",
  "mutations": [{"target": "x", "is_input": true, "node": "c"}],
  "parts": [
    {"module": "", "class": ".Model", "size": 1},
    {"module": "act", "class": "torch.nn.modules.activation.GELU",
     "hooks": ["log"], "settings": {"approximate": "'none'"},
     "absent": ["forward"], "empty": ["bias"]}]})json";

std::string replaced(std::string text, std::string_view from,
                     std::string_view to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_refused(const std::string& json, std::string_view reason) {
  const auto graph = parse_graph(json);
  REQUIRE_FALSE(graph);
  CHECK(graph.error().code == ErrorCode::wrong_input);
  INFO(graph.error().message);
  CHECK(graph.error().message.find(reason) != std::string::npos);
}

TEST_CASE("a captured graph is read with all it says") {
  const auto graph = parse_graph(kSmall);
  REQUIRE(graph);
  CHECK_FALSE(graph->training);
  CHECK(graph->output_template == "({0},)");
  CHECK(graph->mutations == std::vector<Mutation>{{"x", true, "c"}});
  const Node* max = graph->find("m");
  REQUIRE(max);
  CHECK(max->is_tuple);
  CHECK(max->source == "p.py:3");
  CHECK(max->values[1]->dtype == DType::i64);
  const Node* clamp = graph->find("c");
  CHECK(std::get<double>(clamp->args[1].value) == 1.0);
  CHECK(std::isinf(std::get<double>(clamp->args[2].value)));
  CHECK(clamp->kwargs[0].second == Arg{Symbol{"dtype", "float32"}});
  CHECK(graph->parts == std::vector<Part>{{"", ".Model", {}, 1, {}, {}, {}},
                                          {"act",
                                           "torch.nn.modules.activation.GELU",
                                           {"log"},
                                           0,
                                           {{"approximate", "'none'"}},
                                           {"forward"},
                                           {"bias"}}});
}

TEST_CASE("a graph survives the way to JSON and back") {
  const auto graph = parse_graph(kSmall);
  REQUIRE(graph);
  const std::string json = graph_to_json(*graph);
  const auto again = parse_graph(json);
  REQUIRE(again);
  CHECK(*again == *graph);
  CHECK(graph_to_json(*again) == json);
}

TEST_CASE("a float that is whole does not become an integer on the way") {
  const auto graph = parse_graph(kSmall);
  REQUIRE(graph);
  CHECK(graph_to_json(*graph).find(R"({"node":"v"},1.0,{"float":"inf"})") !=
        std::string::npos);
}

TEST_CASE("a graph without a mode was captured in training") {
  const auto graph =
      parse_graph(replaced(std::string(kSmall), "\"training\": false,", ""));
  REQUIRE(graph);
  CHECK(graph->training);
}

TEST_CASE("what does not fit is refused by name") {
  const std::string good(kSmall);
  check_refused("{", "not valid JSON");
  check_refused("[]", "not a JSON object");
  check_refused(replaced(good, "\"version\": 1", "\"version\": 2"), "version");
  check_refused(replaced(good, "\"kind\": \"input\"", "\"kind\": \"thing\""),
                "node x: unknown kind 'thing'");
  check_refused(
      replaced(good, "\"float32\", \"shape\"", "\"quint8\", \"shape\""),
      "node x: unsupported dtype 'quint8'");
  check_refused(replaced(good, "{\"node\": \"m\"}, 0", "{\"node\": \"m\"}, 2"),
                "node v: getitem reads a value");
  check_refused(replaced(good, "{\"node\": \"v\"}", "{\"node\": \"w\"}"),
                "node c: uses w");
  check_refused(replaced(good, "\"name\": \"m\"", "\"name\": \"x\""),
                "node x: defined twice");
  check_refused(replaced(good, "aten.max.dim", "os.system('x').y"),
                "no operator name");
  check_refused(replaced(good, "\"outputs\": [\"c\"]", "\"outputs\": [\"d\"]"),
                "output d");
  check_refused(replaced(good, "\"shape\": [2, 3]", "\"shape\": [2, \"s0\"]"),
                "node x: shape and stride");
  check_refused(replaced(good, "{\"float\": \"inf\"}", "{\"float\": \"x\"}"),
                "node c: argument");
  check_refused(replaced(good, "\"act\"", "\"a.act\""), "part a.act: it is in");
  check_refused(replaced(good, "\"act\"", "\"\""), "told of twice");
  check_refused(replaced(good, "\"'none'\"", "0"), "part act: no text");
}

TEST_CASE("of a graph that says nothing of parts none is written") {
  GraphBuilder b;
  const std::string json =
      graph_to_json(b.input("x", dense({2})).outputs({"x"}).graph);
  CHECK_FALSE(json.contains("parts"));
}

TEST_CASE("sizes count elements and bytes") {
  CHECK(element_count({DType::f32, {2, 3, 4}, {12, 4, 1}}) == 24);
  CHECK(element_count({DType::f32, {}, {}}) == 1);
  CHECK(element_count({DType::f32, {3, 0}, {1, 1}}) == 0);
  CHECK(element_bytes(DType::bf16) == 2);
}

TEST_CASE("a dtype's name leads back to it") {
  for (DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
        DType::i16, DType::i8, DType::u8, DType::boolean}) {
    CHECK(dtype_from_name(dtype_name(dtype)) == dtype);
  }
  CHECK_FALSE(dtype_from_name("quint8"));
}

TEST_CASE("a graph that nests without end is refused") {
  const auto refused = [](const std::string& text) {
    const auto graph = parse_graph(text);
    REQUIRE(!graph);
    return graph.error().message;
  };
  const std::string deep(1'000'000, '[');
  CHECK(refused(deep).contains("not valid JSON"));
  const std::string closed = deep + std::string(deep.size(), ']');
  const nlohmann::json small = nlohmann::json::parse(kSmall);
  nlohmann::json in_args = small;
  in_args["nodes"][2]["args"] = {"deep"};
  nlohmann::json in_kwargs = small;
  in_kwargs["nodes"][3]["kwargs"]["l"] = "deep";
  nlohmann::json in_symbol = small;
  in_symbol["symbol"] = {{"size", {4}}, {"grows", "deep"}};
  for (const auto& graph : {in_args, in_kwargs, in_symbol}) {
    const std::string text = replaced(graph.dump(), "\"deep\"", closed);
    CHECK(refused(text).contains("not valid JSON"));
  }
}

TEST_CASE("a pointer that is none is refused by name") {
  for (const std::string pointer :
       {"/~7", "/nodes/99999999999999999999999", "/nodes/x", "/nodes/01", "/",
        "/version/", "nodes"}) {
    const nlohmann::json written = {
        {"version", 1},
        {"nodes", nlohmann::json::array()},
        {"outputs", nlohmann::json::array()},
        {"symbol", {{"size", {4}}, {"grows", {{pointer, 1}}}}}};
    const auto graph = parse_graph(written.dump());
    REQUIRE(!graph);
    CHECK(graph.error().message.contains("captured graph: symbol"));
  }
}

}  // namespace
}  // namespace weft
