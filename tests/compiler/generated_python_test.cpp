// The generated Python is run for real: its syntax by any python3, its meaning
// where WEFT_PYTHON (or python3) has torch.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compiler/compose/compose.hpp"
#include "compiler/fusion/partition.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProblem = R"py(import torch


class Model(torch.nn.Module):
    """y = relu(x + shift), twice, with a product between."""

    def __init__(self, size):
        super(Model, self).__init__()
        self.shift = torch.nn.Parameter(torch.randn(size))

    def forward(self, x):
        y = torch.relu(x + self.shift)
        return torch.relu(y @ x + self.shift).t()
)py";

constexpr const char* kKernel = R"cpp(
  extern "C" void kernel_function(const float* x, const float* w, float* y) {
    for (int i = 0; i < 9; ++i) {
      const float sum = x[i] + w[i % 3];
      y[i] = sum > 0 ? sum : 0;
    }
  }
)cpp";

constexpr std::string_view kTrial = R"py(import torch
torch.set_grad_enabled(False)  # with a gradient it is the original
source = open("model_new.py").read()
context = {}
exec(source, context)
import model_new
torch.manual_seed(0)
for Model in (model_new.ModelNew, context["ModelNew"]):
    model = Model(3)
    original = model.forward_reference
    gone = []
    model.forward_reference = lambda x: gone.append(x) or original(x)
    x = torch.randn(3, 3)
    assert torch.allclose(model(x), original(x), atol=1e-6)
    assert model(x).stride() == (1, 3)
    assert not gone, "the captured inputs went to the original"
    for other in (torch.randn(3, 3).t(), x.double()):
        model.double() if other.dtype == torch.float64 else model
        assert torch.equal(model(other), original(other))
    model.float().eval()  # a mode that nothing in it reads
    assert torch.allclose(model(x), original(x), atol=1e-6)
    assert len(gone) == 2, len(gone)
    model.train()
    model.load_state_dict({"shift": torch.ones(3)})
    assert torch.allclose(model(x), original(x), atol=1e-6)
    assert len(gone) == 2, len(gone)
    model.scale = 2.0
    assert torch.equal(model(x), original(x))
    assert len(gone) == 3, len(gone)
    del model.scale
    with torch.autocast("cpu"):
        assert torch.equal(model(x), original(x))
    assert len(gone) == 4, len(gone)
    model(x)
    assert len(gone) == 4, len(gone)
)py";

Plan sample_plan() {
  const TensorType square = dense({3, 3});
  GraphBuilder b;
  b.placeholder(NodeKind::parameter, "w", dense({3}), "shift");
  b.input("x", square);
  b.call("s", "add.Tensor", {"x", "w"}, square)
      .call("r", "relu", {"s"}, square);
  b.call("m", "mm", {"r", "x"}, square);
  b.call("s2", "add.Tensor", {"m", "w"}, square);
  b.call("r2", "relu", {"s2"}, square);
  b.call("t", "t", {"r2"}, {DType::f32, {3, 3}, {1, 3}}).outputs({"t"});
  b.graph.parts = {{"", ".Model", {}, 0, {}, {"scale"}, {"scale"}}};
  return partition(b.graph, [](const Graph&, const Node& call) {
    return call.target.find("mm") == std::string::npos;
  });
}

/// A folder that is gone with the test.
struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "weft-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path / name) << text;
  }
  fs::path path;
};

int run_python(const Folder& folder, const std::string& arguments) {
  const char* named = std::getenv("WEFT_PYTHON");
  return std::system(
      ("cd '" + folder.path.string() + "' && WEFT_KERNEL_CACHE=made/cache '" +
       (named ? named : "python3") + "' " + arguments + " > output 2>&1")
          .c_str());
}

std::string output_of(const Folder& folder) {
  std::ifstream file(folder.path / "output");
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const Folder& folder, const char* kernel) {
  const Plan plan = sample_plan();
  REQUIRE(plan.subgraphs.size() == 1);
  REQUIRE(plan.placements.size() == 2);
  const Subgraph& subgraph = plan.subgraphs[0];
  folder.write("reference.py", reference_source(subgraph));
  folder.write("test_kernel.py", test_source(subgraph));
  folder.write(
      "kernel.py",
      kernel_module_source(subgraph, {kernel, "plain", find_target("cpu")}));
  const auto composed = compose_source(
      kProblem, plan, {{subgraph.id, {kernel, "plain", find_target("cpu")}}});
  REQUIRE(composed);
  folder.write("model_new.py", *composed);
  folder.write("trial.py", kTrial);
}

TEST_CASE("every generated file is Python") {
  Folder folder;
  write_all(folder, kKernel);
  const int code = run_python(folder,
                              "-m py_compile reference.py test_kernel.py "
                              "kernel.py model_new.py");
  INFO(output_of(folder));
  CHECK(code == 0);
}

TEST_CASE("a right kernel passes, a wrong one fails, the whole model agrees") {
  Folder folder;
  if (run_python(folder, "-c 'import torch'") != 0) {
    MESSAGE("no torch for this python: set WEFT_PYTHON");
    return;
  }
  write_all(folder, kKernel);
  const int right = run_python(folder, "test_kernel.py");
  INFO(output_of(folder));
  CHECK(right == 0);
  const int whole = run_python(folder, "trial.py");
  INFO(output_of(folder));
  CHECK(whole == 0);

  std::string wrong(kKernel);
  wrong.replace(wrong.find("sum > 0 ? sum : 0"), 17, "sum");
  write_all(folder, wrong.c_str());
  CHECK(run_python(folder, "test_kernel.py") != 0);
  CHECK(output_of(folder).find("FAIL: normal, seed 0, output 0:") == 0);
}

}  // namespace
}  // namespace weft
