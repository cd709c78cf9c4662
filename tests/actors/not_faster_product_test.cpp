// The cut around the framework's own products, where no kernel with one is
// right or wins: its module becomes the whole where it is better.
#include "tests/actors/composer_fixture.hpp"

using namespace weft;

namespace {

/// relu(x) @ x, then tanh: one piece, whose kernels are all wrong or slower.
struct NotFasterProductFixture : EagerContractionsCase {
  explicit NotFasterProductFixture(const std::string& accept = "weft",
                                   const std::string& target = "cpu",
                                   bool seeks_products = true,
                                   bool has_won = false,
                                   const std::string& model = "") {
    const Target& triton = *find_target("triton");
    plan = partition(two_piece_graph(), triton);
    add_eager_contractions_partition(two_piece_graph(), triton, {}, plan);
    Compose compose{blobs.put(plan_to_json(plan)), small_run(blobs), {}};
    compose.run.options.accept = accept;
    compose.run.options.target = target;
    compose.run.seeks_products = seeks_products;
    compose.run.options.llm.name = model;
    SubgraphDone product =
        done(plan.subgraphs.front().id, has_won ? "won" : "rejected", has_won);
    product.reason = has_won ? "" : "wrong: its errors are larger";
    compose.results = {product};
    sent = say(address::dispatcher, compose);
  }
  /// How many of the eager-contractions partition's kernels are in the module
  /// that is written.
  std::size_t kernels() { return count(file("composed/model_new.py")); }
  /// … and in the one that is to be checked.
  std::size_t composed_kernels() { return count(composed()); }
  bool has_kernelbench_module() { return !kernelbench_module().empty(); }
};

}  // namespace

TEST_CASE("kernels around a product of which none is right make the module") {
  for (const char* accept : {"weft", "kernelbench", "both"}) {
    CAPTURE(accept);
    NotFasterProductFixture composer(accept);
    composer.checked("within");  // Model's own forward
    CHECK_FALSE(composer.asks());
    composer.timed(1.0);
    REQUIRE(composer.asks());
    composer.searched();
    composer.checked("within");
    composer.timed(1.4);
    CHECK(composer.kernels() == 2);
    CHECK_FALSE(composer.has_kernelbench_module());
    const std::string report = composer.file("report.md");
    CHECK(report.contains("* aten.mm.default × 1"));
    CHECK(report.contains("1.40×"));
    CHECK(report.contains("PyTorch computes the products"));
  }
}

TEST_CASE("so it is where the module with the product's kernel is slower") {
  NotFasterProductFixture composer("weft", "cpu", true, true);
  composer.checked("within");
  composer.timed(0.5);
  composer.timed(0.5);
  composer.checked("within");  // Model's own forward
  composer.timed(1.0);
  REQUIRE(composer.asks());
  composer.searched();
  composer.checked("within");
  composer.timed(1.3);
  CHECK(composer.kernels() == 2);
}

TEST_CASE("a product whose kernel is in the module is not sought") {
  NotFasterProductFixture composer("weft", "cpu", true, true);
  composer.checked("within");
  composer.timed(2.0);
  CHECK_FALSE(composer.asks());
  CHECK(composer.kernels() == 0);
}

TEST_CASE("a language model is not paid for it") {
  NotFasterProductFixture composer("both", "cpu", true, false, "a model");
  composer.checked("within");
  composer.timed(1.0);
  CHECK_FALSE(composer.asks());
}

TEST_CASE("a run of before does not search for it") {
  for (const char* accept : {"weft", "both"}) {
    NotFasterProductFixture composer(accept, "cpu", false);
    composer.checked("within");
    composer.timed(1.0);
    CHECK_FALSE(composer.asks());
  }
}

TEST_CASE("what is around the product does not count where it is no better") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    NotFasterProductFixture composer;
    composer.checked("within");
    composer.timed(1.0);
    composer.searched();
    composer.checked("within", how != 0);
    if (how > 0) composer.timed(how == 1 ? 0.9 : 0.99);
    if (how == 1) composer.timed(0.9);  // once more
    CHECK(composer.kernels() == 0);
    CHECK_FALSE(composer.has_kernelbench_module());
    CHECK_FALSE(
        composer.file("report.md").contains("computes the products: kern"));
  }
}

TEST_CASE("by weft's rule alone what is around it may be far from eager") {
  NotFasterProductFixture weft("weft"), both("both");
  for (NotFasterProductFixture* composer : {&weft, &both}) {
    composer->checked("within");
    composer->timed(1.0);
    composer->searched();
    composer->checked("outside");
  }
  weft.timed(1.4);
  CHECK(weft.kernels() == 2);
  CHECK(both.composed_kernels() == 1);  // it is sought by halves what is near
}

TEST_CASE("where nothing is timed more kernels are better") {
  NotFasterProductFixture composer("both", "triton");
  composer.checked("within");
  REQUIRE(composer.asks());
  composer.searched();
  composer.checked("within");
  CHECK(composer.kernels() == 2);
  CHECK_FALSE(composer.has_kernelbench_module());
}
