#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "compiler/cpu/generate.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

bool lowers(std::string target, std::vector<Arg> args, TensorType in,
            TensorType out) {
  Graph graph;
  add_input(graph, "x", std::move(in));
  const Node call =
      add_call(graph, "y", std::move(target), std::move(args), std::move(out));
  return can_lower(graph, call);
}

bool compiles(const std::string& source, const std::string& machine) {
  std::string name = std::filesystem::temp_directory_path() / "weft_cpu_XXXXXX";
  const int file = mkstemp(name.data());
  REQUIRE(file >= 0);
  close(file);
  std::ofstream(name) << source;
  const std::string command = "g++ -std=c++17 -Wno-psabi -march=" + machine +
                              " -x c++ -fsyntax-only " + name;
  const bool good = std::system(command.c_str()) == 0;
  std::filesystem::remove(name);
  return good;
}

/// Builds a source with the generator's flags and opens what it exports.
class Built {
 public:
  explicit Built(const std::string& source)
      : folder_(std::filesystem::temp_directory_path() / "weft_cpu_XXXXXX") {
    std::string name = folder_.string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(folder_ / "kernel.cpp") << source;
    std::string command = "g++";
    for (const std::string& flag : cpu_build_flags()) command += " " + flag;
    command += " " + name + "/kernel.cpp -o " + name + "/kernel.so";
    REQUIRE(std::system(command.c_str()) == 0);
    library_ = dlopen((name + "/kernel.so").c_str(), RTLD_NOW);
    REQUIRE(library_ != nullptr);
  }
  ~Built() {
    dlclose(library_);
    std::filesystem::remove_all(folder_);
  }
  Built(const Built&) = delete;
  Built& operator=(const Built&) = delete;

  template <class Function>
  Function* function() const {
    return reinterpret_cast<Function*>(dlsym(library_, "kernel_function"));
  }

 private:
  std::filesystem::path folder_;
  void* library_ = nullptr;
};

}  // namespace

TEST_CASE("Views, pointwise calls, reductions and norms can be lowered") {
  const TensorType type = dense({4, 6});
  CHECK(lowers("aten.gelu.default", {ref("x")}, type, type));
  CHECK(lowers("aten.view.default", {ref("x"), list({24})}, type, dense({24})));
  CHECK(
      lowers("aten.sum.dim_IntList", {ref("x"), list({1})}, type, dense({4})));
}

TEST_CASE("What has no rule stays the framework's") {
  CHECK_FALSE(lowers("aten.mm.default", {ref("x"), ref("x")}, dense({4, 4}),
                     dense({4, 4})));
  CHECK_FALSE(lowers("aten.sort.default", {ref("x")}, dense({4}), dense({4})));
}

TEST_CASE("A dtype that is not computed in stays the framework's") {
  TensorType type = dense({4});
  type.dtype = DType::i8;
  CHECK_FALSE(lowers("aten.exp.default", {ref("x")}, type, type));
}

TEST_CASE("A getitem can be lowered if its tuple can") {
  Graph graph;
  const TensorType type = dense({4, 6});
  add_input(graph, "x", type);
  Node& most =
      add_call(graph, "m", "aten.max.dim", {ref("x"), integer(1)}, dense({4}));
  most.is_tuple = true;
  most.values = {dense({4}), dense({4})};
  most.values[1]->dtype = DType::i64;
  const Node item =
      add_call(graph, "v", "getitem", {ref("m"), integer(0)}, dense({4}));
  CHECK(can_lower(graph, item));
}

TEST_CASE("No two variants are equal, and there are no more than asked for") {
  const auto sources = generate_cpu(subgraph_of(softmax(64, 2048)), {}, 3);
  REQUIRE(sources.has_value());
  CHECK(sources->size() == 3);
  std::set<std::string> texts;
  for (const KernelSource& source : *sources) {
    texts.insert(source.text.substr(source.text.find("#include")));
  }
  CHECK(texts.size() == sources->size());
}

TEST_CASE("Equal subgraphs give equal sources") {
  const auto first = generate_cpu(subgraph_of(softmax(64, 512)), {}, 8);
  const auto second = generate_cpu(subgraph_of(softmax(64, 512)), {}, 8);
  REQUIRE(first.has_value());
  REQUIRE(first->size() == second->size());
  for (std::size_t i = 0; i < first->size(); ++i) {
    CHECK((*first)[i].text == (*second)[i].text);
  }
}

TEST_CASE("A source says what it computes") {
  const auto sources = generate_cpu(subgraph_of(softmax(64, 512)), {}, 1);
  const std::string& text = sources->front().text;
  CHECK(text.starts_with("// test (sg_0123456789ab), variant "));
  CHECK(text.find("aten._softmax.default float32[64, 512]") !=
        std::string::npos);
}

TEST_CASE("What cannot be lowered is an error that names it") {
  Graph graph;
  add_input(graph, "x", dense({4}));
  add_call(graph, "y", "aten.sort.default", {ref("x")}, dense({4}));
  graph.outputs = {"y"};
  const auto sources = generate_cpu(subgraph_of(std::move(graph)), {}, 4);
  REQUIRE_FALSE(sources.has_value());
  CHECK(sources.error().message.find("aten.sort.default") != std::string::npos);
}

TEST_CASE("The floor counts inputs and outputs once") {
  CHECK(bytes_floor(subgraph_of(softmax(64, 512))) == 2 * 64 * 512 * 4);
}

TEST_CASE("Nothing that changes NaN or infinities is asked of the compiler") {
  for (const std::string& flag : cpu_build_flags()) {
    CHECK(flag != "-ffast-math");
    CHECK(flag != "-Ofast");
    CHECK(flag != "-ffinite-math-only");
  }
}

TEST_CASE("A built softmax agrees with one in double") {
  constexpr int kRows = 5;
  constexpr int kWidth = 77;
  LoopFacts facts;
  facts.cores = 2;
  const auto sources =
      generate_cpu(subgraph_of(softmax(kRows, kWidth)), facts, 1);
  REQUIRE(sources.has_value());
  const Built built(sources->front().text);
  std::vector<float> x(kRows * kWidth);
  std::vector<float> y(x.size(), NAN);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(3.0F * i) * 9.0F;
  built.function<void(const float*, float*)>()(x.data(), y.data());
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int i = 0; i < kWidth; ++i) sum += std::exp(x[row * kWidth + i] - 9.0);
    for (int i = 0; i < kWidth; ++i) {
      const double want = std::exp(x[row * kWidth + i] - 9.0) / sum;
      CHECK(y[row * kWidth + i] == doctest::Approx(want).epsilon(1e-6));
    }
  }
}

namespace {

TensorType of(DType dtype, std::vector<std::int64_t> shape) {
  TensorType type = dense(std::move(shape));
  type.dtype = dtype;
  return type;
}

bool lowers_two(std::string target, DType dtype) {
  Graph graph;
  const TensorType type = of(dtype, {4, 6});
  add_input(graph, "x", type);
  add_input(graph, "y", type);
  const Node call =
      add_call(graph, "z", std::move(target), {ref("x"), ref("y")}, type);
  return can_lower(graph, call);
}

}  // namespace

TEST_CASE("Truth values are added and multiplied, as or and and, no more") {
  const TensorType type = of(DType::boolean, {4, 6});
  CHECK(lowers_two("aten.add.Tensor", DType::boolean));
  CHECK(lowers_two("aten.mul.Tensor", DType::boolean));
  CHECK_FALSE(lowers_two("aten.sub.Tensor", DType::boolean));
  CHECK_FALSE(lowers_two("aten.remainder.Tensor", DType::boolean));
  CHECK_FALSE(lowers("aten.neg.default", {ref("x")}, type, type));
  CHECK_FALSE(lowers("aten.sum.dim_IntList", {ref("x"), list({1})}, type,
                     of(DType::boolean, {4})));
}

TEST_CASE("Integers are divided by numbers that cannot stop the process") {
  const TensorType type = of(DType::i64, {4, 6});
  const auto by = [&](std::int64_t number) {
    return lowers("aten.remainder.Scalar", {ref("x"), integer(number)}, type,
                  type);
  };
  CHECK(by(7));
  CHECK_FALSE(by(0));
  CHECK_FALSE(by(-1));
  CHECK_FALSE(lowers_two("aten.remainder.Tensor", DType::i64));
  CHECK_FALSE(lowers_two("aten.floor_divide.default", DType::i64));
  CHECK(lowers_two("aten.remainder.Tensor", DType::f32));
}

TEST_CASE("Integers that a double cannot hold stay the framework's") {
  const TensorType type = of(DType::i64, {4});
  const auto by = [&](std::int64_t alpha) {
    return lowers("aten.add.Tensor", {ref("x"), ref("x"), integer(alpha)}, type,
                  type);
  };
  CHECK(by(std::int64_t{1} << 53));
  CHECK_FALSE(by((std::int64_t{1} << 53) + 1));
}

TEST_CASE("Positions beyond 32 bits stay the framework's") {
  const auto over = [&](std::int64_t extent) {
    return lowers("aten.argmax.default", {ref("x"), integer(0)},
                  dense({extent}), of(DType::i64, {}));
  };
  CHECK(over(INT32_MAX));
  CHECK_FALSE(over(std::int64_t{INT32_MAX} + 1));
}

TEST_CASE(
    "Sources compile with narrower and with wider vectors than they use") {
  for (const int vector_bytes : {16, 32, 64}) {
    LoopFacts facts;
    facts.vector_bytes = vector_bytes;
    const auto sources = generate_cpu(subgraph_of(softmax(8, 512)), facts, 1);
    REQUIRE(sources.has_value());
    for (const char* machine : {"x86-64-v2", "haswell", "x86-64-v4"}) {
      CAPTURE(vector_bytes);
      CAPTURE(machine);
      CHECK(compiles(sources->front().text, machine));
    }
  }
}

TEST_CASE("A transposing load is turned in registers") {
  Graph graph;
  add_input(graph, "x", dense({40, 64}));
  TensorType across = dense({64, 40});
  across.stride = {1, 64};
  add_call(graph, "t", "aten.permute.default", {ref("x"), list({1, 0})},
           across);
  add_call(graph, "y", "aten.exp.default", {ref("t")}, dense({64, 40}));
  graph.outputs = {"y"};
  const auto sources = generate_cpu(subgraph_of(std::move(graph)), {}, 1);
  REQUIRE(sources.has_value());
  const std::string& text = sources->front().text;
  const std::string kernel = text.substr(text.find("void kernel_function"));
  CHECK(kernel.find("turned(") != std::string::npos);
  CHECK(kernel.find("gather(") == std::string::npos);
}

TEST_CASE("What a pass computed dearly is kept for the next, in short rows") {
  const auto keeps = [](std::int64_t width) {
    const auto sources = generate_cpu(subgraph_of(softmax(64, width)), {}, 1);
    REQUIRE(sources.has_value());
    return sources->front().text.find("alignas(64) float kept") !=
           std::string::npos;
  };
  CHECK(keeps(1024));
  CHECK_FALSE(keeps(1 << 20));
}
