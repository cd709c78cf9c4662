#include "compiler/compose/problem_source.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

constexpr std::string_view kProblem = R"py("""Model in a string."""
import torch

# Model in a comment
@decorated
class Model(torch.nn.Module):
    """The Model."""

    def __init__(self, n=Default.Model):
        super(Model, self).__init__()
        self.make = build(Model=1)

    def forward(self, x: "Model", *rest, scale=(1, 2), **more):
        def forward(y):
            return y
        return forward(x)

    # last words


def get_inputs():
    assert Model
    return []
)py";

std::string replaced(std::string text, std::string_view from,
                     std::string_view to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("the class is cut out with its decorators, and renamed") {
  const auto problem = split_problem(kProblem);
  REQUIRE(problem);
  CHECK(problem->before ==
        "\"\"\"Model in a string.\"\"\"\nimport torch\n\n"
        "# Model in a comment\n");
  CHECK(problem->model.starts_with("@decorated\nclass ModelNew(torch"));
  CHECK(problem->model.find("super(ModelNew, self)") != std::string::npos);
  CHECK(problem->after.find("assert ModelNew") != std::string::npos);
}

TEST_CASE("strings, attributes and keyword arguments keep the name Model") {
  const auto problem = split_problem(kProblem);
  REQUIRE(problem);
  for (const char* kept : {"\"\"\"The Model.\"\"\"", "Default.Model",
                           "build(Model=1)", "x: \"Model\""}) {
    CHECK(problem->model.find(kept) != std::string::npos);
  }
}

TEST_CASE("forward becomes forward_reference, its inner namesake does not") {
  const auto problem = split_problem(kProblem);
  REQUIRE(problem);
  CHECK(problem->model.find("def forward_reference(self, x") !=
        std::string::npos);
  CHECK(problem->model.find("def forward(y)") != std::string::npos);
  CHECK(problem->indent == "    ");
}

TEST_CASE("the header says what forward takes") {
  const auto problem = split_problem(kProblem);
  REQUIRE(problem);
  CHECK(problem->header == "(self, x: \"Model\", *rest, scale=(1, 2), **more)");
  REQUIRE(problem->parameters.size() == 4);
  using Kind = PythonParameter::Kind;
  CHECK(problem->parameters[0].name == "x");
  CHECK(problem->parameters[1].kind == Kind::positional_rest);
  CHECK(problem->parameters[2].kind == Kind::keyword_only);
  CHECK(problem->parameters[2].has_default);
  CHECK(problem->parameters[3].kind == Kind::keyword_rest);
}

TEST_CASE("renaming alone leaves forward as it was") {
  const auto text = rename_model(kProblem);
  REQUIRE(text);
  CHECK(text->find("class ModelNew") != std::string::npos);
  CHECK(text->find("def forward(self") != std::string::npos);
  CHECK(text->find("forward_reference") == std::string::npos);
}

TEST_CASE("a file whose last line has no end is fine") {
  const auto problem =
      split_problem("class Model:\n  def forward(self, x): return x");
  REQUIRE(problem);
  CHECK(problem->model ==
        "class ModelNew:\n  def forward_reference(self, x): return x\n");
  CHECK(problem->after.empty());
}

TEST_CASE("what cannot be composed is refused with its reason") {
  const auto reason = [](std::string_view source) {
    const auto problem = split_problem(source);
    REQUIRE_FALSE(problem);
    CHECK(problem.error().code == ErrorCode::wrong_input);
    return problem.error().message;
  };
  CHECK(reason("x = 1\n").find("no class Model") != std::string::npos);
  CHECK(reason("class Model:\n  pass\n").find("no forward()") !=
        std::string::npos);
  CHECK(reason(replaced(std::string(kProblem), "Default.Model", "ModelNew"))
            .find("ModelNew is taken") != std::string::npos);
}

}  // namespace
}  // namespace weft
