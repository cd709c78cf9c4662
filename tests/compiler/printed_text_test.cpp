#include "compiler/graph/printed_text.hpp"

#include <doctest/doctest.h>

#include <string>

#include "compiler/graph/graph_check.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

TEST_CASE("paths of arguments are names with keys and attributes") {
  for (const char* path :
       {"x", "xs[0]", "xs[-1][2]", "d['a'].b", "kwargs['it\\'s']", "größe",
        "d[(1, 'a')]", "d[True]", "d[\"it's [odd]\"]"}) {
    INFO(path);
    CHECK(is_input_path(path));
  }
}

TEST_CASE("a path holds no other code") {
  for (const char* path : {"",
                           "0",
                           "x[",
                           "x[0",
                           "x[]",
                           "x[y]",
                           "x.",
                           "x[0].0",
                           "x()",
                           "x;y",
                           "x if y else z",
                           "x[__import__('os').system('id')]",
                           "x['a' + 'b']",
                           "x['a\nb']",
                           "x\nimport os",
                           "x['",
                           "x['\\",
                           "x[('a']",
                           "x, y",
                           "x#",
                           "x = 1",
                           "x[1:2]",
                           "x[0] "}) {
    INFO(path);
    CHECK_FALSE(is_input_path(path));
  }
}

TEST_CASE("what forward() returns is containers, literals and its values") {
  for (const char* form :
       {"{0}", "({0},)", "({0}, {1})", "()", "[]", "[{0}, ({1}, None)]",
        "{{'a': {0}, 3: [{1}]}}", "{{}}", "torch.return_types.max(({0}, {1},))",
        "__import__('collections').OrderedDict([('a', {0})])",
        "Result({0}, 'mean')", "Result({0}, 1e-05)", "Result(pair({0}), 'a')",
        "pair({0}, True)", "({0}, -1, 2.5, float('nan'), float('-inf'))",
        "({0}, 'a{{b}}c')", "({0}, \"it's\")"}) {
    INFO(form);
    CHECK(is_output_template(form, 2));
  }
}

TEST_CASE("a template holds no other code") {
  for (const char* form : {"",
                           "{2}",
                           "{0",
                           "{}",
                           "{0}{1}",
                           "{0}.numel()",
                           "{0}; exit()",
                           "x",
                           "({0}",
                           "exec('import os')",
                           "exec(bytes([105]))",
                           "Result(exec(bytes([105])))",
                           "exec(Result(bytes([105])))",
                           "__import__('os')",
                           "__import__('os').system('id')",
                           "torch.save({0}, 'f')",
                           "__import__('collections').abc",
                           "({0}, 'a{b}')",
                           "({0}, '\\{9}')",
                           "'\n'",
                           "[x for x in {0}]",
                           "lambda: {0}",
                           "{{'a'}}",
                           "{{{0}}}",
                           "({0} + {1})",
                           "float('1')",
                           "Path('f').unlink()",
                           "{0} "}) {
    INFO(form);
    CHECK_FALSE(is_output_template(form, 2));
  }
  const std::string deep = std::string(200'000, '(') + "{0}";
  CHECK_FALSE(is_output_template(deep, 1));
  CHECK_FALSE(is_input_path("x[" + std::string(200'000, '(')));
}

TEST_CASE("constants of PyTorch are single names") {
  for (const char* text : {"float32", "cuda:0", "cpu", "contiguous_format"}) {
    CHECK(is_symbol_text(text));
  }
  for (const char* text : {"", "float32)", "cpu\")", "a b", "torch.float32"}) {
    CHECK_FALSE(is_symbol_text(text));
  }
}

TEST_CASE("a graph with such a text is refused") {
  const auto with = [](const std::string& target, const std::string& dtype,
                       const std::string& form) {
    GraphBuilder b;
    b.placeholder(NodeKind::input, "x", dense({2}), target);
    b.call("y", "to.dtype", {"x"}, dense({2}),
           {{Arg::List{{Symbol{"dtype", dtype}}}}});
    b.graph.outputs = {"y"};
    b.graph.output_template = form;
    return check_graph(b.graph);
  };
  CHECK(with("x", "float64", "{0}"));
  for (const auto& checked :
       {with("x, os.system('id')", "float64", "{0}"),
        with("x", "float64) or print(", "{0}"),
        with("x", "float64", "({0}, exec('import os'))")}) {
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == ErrorCode::wrong_input);
  }
}

}  // namespace
}  // namespace weft
