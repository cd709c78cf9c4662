// Nodes with real sockets and threads, and made-up work.
#include <sys/resource.h>

#include <atomic>

#include "tests/runtime/bus_fixture.hpp"

namespace weft {
namespace {

/// Builds at once; what was built is made of the source.
void build(Blobs& blobs, const BuildRequest& request, const std::stop_token&,
           const Port::Reply& reply) {
  BuildReply built;
  built.effect = request.effect;
  if (!request.source.empty()) {
    const auto source = blobs.get(request.source);
    if (source) {
      built.artefact = blobs.put("built of " + *source);
    } else {
      built.failure = {"failed", source.error().message};
    }
  }
  reply(std::move(built));
}

/// Works until it is stopped; then says so.
class Endless {
 public:
  void operator()(Blobs&, const BuildRequest& request,
                  const std::stop_token& cancelled, Port::Reply reply) {
    ++*begun_;
    held_->push_back(std::make_unique<Stop>(
        cancelled, [request, reply] { reply(cancelled_reply(request)); }));
  }
  int begun() const { return *begun_; }

 private:
  using Stop = std::stop_callback<std::function<void()>>;
  std::shared_ptr<std::atomic<int>> begun_ =
      std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::vector<std::unique_ptr<Stop>>> held_ =
      std::make_shared<std::vector<std::unique_ptr<Stop>>>();
};

double thread_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) /
             1e6;
}

TEST_CASE("nodes build what they are asked, from blobs, and send blobs back") {
  Cluster cluster;
  cluster.add_node("n1", &build);
  cluster.add_node("n2", &build);
  REQUIRE(cluster.wait_in("n1"));
  REQUIRE(cluster.wait_in("n2"));
  for (std::uint64_t id = 1; id <= 40; ++id) {
    cluster.ask(id, id % 2 ? "n1" : "n2", "source " + std::to_string(id));
  }
  REQUIRE(cluster.wait_answers(40));
  for (std::uint64_t id = 1; id <= 40; ++id) {
    const BuildReply& reply = cluster.answers_.at(id);
    CHECK(reply.failure.message == "");
    const auto built = cluster.blobs_.get(reply.artefact);
    REQUIRE(built);
    CHECK(*built == "built of source " + std::to_string(id));
  }
}

TEST_CASE("what a run's ports use outlives them on a node") {
  Cluster cluster;
  std::atomic<bool> is_kept = true;
  std::atomic<bool> was_kept = false;
  std::shared_ptr<void> keeps(nullptr, [&](void*) { is_kept = false; });
  cluster.add_node("n1", &build, true, 1, std::move(keeps),
                   [&] { was_kept = is_kept.load(); });
  REQUIRE(cluster.wait_in("n1"));
  cluster.finish();
  REQUIRE(cluster.wait_ended("n1"));
  CHECK(cluster.ended_["n1"] == "in peace");
  CHECK(was_kept);
}

TEST_CASE("a node of one run ends with it, another waits for the next") {
  Cluster cluster;
  cluster.add_node("once", &build, true);
  cluster.add_node("stays", &build, false);
  REQUIRE(cluster.wait_in("once"));
  REQUIRE(cluster.wait_in("stays"));
  cluster.finish();
  REQUIRE(cluster.wait_ended("once"));
  CHECK(!cluster.ended_.contains("stays"));
  cluster.stop_node("stays");
  REQUIRE(cluster.wait_ended("stays"));
  CHECK(cluster.ended_["stays"] == "in peace");
}

TEST_CASE("a node that is stopped stops its work, and the head knows at once") {
  Cluster cluster;
  Endless endless;
  cluster.add_node("n1", endless);
  REQUIRE(cluster.wait_in("n1"));
  cluster.ask(1, "n1");
  while (endless.begun() == 0) std::this_thread::yield();
  cluster.stop_node("n1");
  REQUIRE(cluster.wait_ended("n1"));
  REQUIRE(cluster.wait_gone("n1"));  // by its word: the silence is a minute
  REQUIRE(cluster.wait_answers(1));
  CHECK(cluster.answers_.at(1).failure.code == "node_lost");
}

TEST_CASE("a node that waits for a head rests, and leaves when it is told to") {
  Cluster cluster;
  cluster.add_node("n1", &build);
  REQUIRE(cluster.wait_in("n1"));
  cluster.bus_->close(false);
  cluster.bus_.reset();  // as a head that died
  const double before_s = thread_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(1'000));
  CHECK(thread_seconds() - before_s < 0.5);
  cluster.stop_node("n1");
  REQUIRE(cluster.wait_ended("n1"));
  CHECK(cluster.ended_["n1"] == "in peace");
}

/// Builds nothing.
void fails(Blobs&, const BuildRequest& request, const std::stop_token&,
           const Port::Reply& reply) {
  BuildReply failed;
  failed.effect = request.effect;
  failed.failure = {"wrong_input", "does not build"};
  reply(failed);
}

TEST_CASE("a node whose machine is not fit hands its work back, and goes") {
  Cluster cluster;
  cluster.add_node("fit", fails);
  std::atomic<int> emptied = 0;
  cluster.why_unfit_ = [] { return "its disk is full"; };
  cluster.free_space_ = [&] { ++emptied; };
  cluster.add_node("unfit", fails);
  REQUIRE(cluster.wait_in("fit"));
  REQUIRE(cluster.wait_in("unfit"));
  cluster.ask(1, "fit");
  cluster.ask(2, "unfit");
  REQUIRE(cluster.wait_answers(2));
  CHECK(cluster.answers_.at(1).failure.code == "wrong_input");
  // What it was sent may be what filled the disk.
  CHECK(cluster.answers_.at(2).failure.code == "disk_full");
  CHECK(cluster.answers_.at(2).failure.message.contains("its disk is full"));
  CHECK(emptied == 1);
  REQUIRE(cluster.wait_ended("unfit"));
  CHECK(cluster.ended_["unfit"] == "its disk is full");
  REQUIRE(cluster.wait_gone("unfit"));
  CHECK(!cluster.ended_.contains("fit"));
}

TEST_CASE("what a full node was never sent had no part in that") {
  Cluster cluster;
  std::atomic<int> begun = 0;
  std::function<void()> end_first;
  const auto hold = [&](Blobs& blobs, const BuildRequest& request,
                        const std::stop_token& cancelled, Port::Reply reply) {
    if (begun == 0) {
      end_first = [&blobs, request, cancelled, reply] {
        fails(blobs, request, cancelled, reply);
      };
    }
    ++begun;
    cluster.notify();
  };
  cluster.why_unfit_ = [] { return "its disk is full"; };
  cluster.add_node("n1", hold);
  REQUIRE(cluster.wait_in("n1"));
  for (std::uint64_t id = 1; id <= 5; ++id) cluster.ask(id, "n1");
  // Those that fit into its one slot, and two more.
  REQUIRE(cluster.wait([&] { return begun == 3; }));
  end_first();
  REQUIRE(cluster.wait_answers(5));
  for (std::uint64_t id = 1; id <= 5; ++id) {
    CAPTURE(id);
    CHECK(cluster.answers_.at(id).failure.code ==
          (id <= 3 ? "disk_full" : "node_lost"));
  }
}

TEST_CASE("a node that finds room once it has emptied its folders stays") {
  Cluster cluster;
  std::atomic<bool> is_full = true;
  cluster.why_unfit_ = [&] { return is_full ? "its disk is full" : ""; };
  cluster.free_space_ = [&] { is_full = false; };
  cluster.add_node("n1", fails);
  REQUIRE(cluster.wait_in("n1"));
  cluster.ask(1, "n1");
  REQUIRE(cluster.wait_answers(1));
  // It failed while there was no room: that is no verdict.
  CHECK(cluster.answers_.at(1).failure.code == "disk_full");
  CHECK(cluster.answers_.at(1).failure.message.contains("its disk is full"));
  cluster.ask(2, "n1");
  REQUIRE(cluster.wait_answers(2));
  CHECK(cluster.answers_.at(2).failure.code == "wrong_input");
  CHECK(!cluster.ended_.contains("n1"));
}

/// n1 makes a library, and its blobs can be written no more, whoever it runs
/// as. The folder of those, whose location a file takes.
fs::path ask_who_cannot_keep(Cluster& cluster) {
  const fs::path blobs = cluster.folder_ / "n1" / "blobs";
  cluster.add_node(
      "n1", [blobs](Blobs& result, const BuildRequest& request,
                    const std::stop_token&, const Port::Reply& reply) {
        fs::remove_all(blobs);
        std::ofstream(blobs) << "in the way";
        reply(BuildReply{request.effect, {}, "", 1, result.put("a library")});
      });
  REQUIRE(cluster.wait_in("n1"));
  cluster.ask(1, "n1");
  REQUIRE(cluster.wait_answers(1));
  return blobs;
}

TEST_CASE("a node whose disk does not take what it makes gives no answer") {
  Cluster cluster;
  const fs::path folder = ask_who_cannot_keep(cluster);
  CHECK(cluster.answers_.at(1).failure.code == "disk_full");
  CHECK(cluster.answers_.at(1).artefact == "");
  REQUIRE(cluster.wait_ended("n1"));
  CHECK(cluster.ended_["n1"].contains(folder.string()));
}

TEST_CASE("a node that makes room for what it made gives its answer") {
  Cluster cluster;
  cluster.free_space_ = [&] { fs::remove(cluster.folder_ / "n1" / "blobs"); };
  ask_who_cannot_keep(cluster);
  CHECK(cluster.answers_.at(1).failure.message == "");
  CHECK(value(cluster.blobs_.get(cluster.answers_.at(1).artefact)) ==
        "a library");
  CHECK(!cluster.ended_.contains("n1"));
}

TEST_CASE("a node of another weft is told why it may not join") {
  Cluster cluster;
  cluster.weft_of_nodes_ = "2";
  cluster.add_node("n1", &build);
  REQUIRE(cluster.wait_ended("n1"));
  CHECK(cluster.ended_["n1"].contains("its weft is 2, the run's 1"));
  CHECK(cluster.in_.empty());
}

TEST_CASE("what nobody waits for any more is stopped at the node") {
  Cluster cluster;
  Endless endless;
  cluster.add_node("n1", endless);
  REQUIRE(cluster.wait_in("n1"));
  cluster.ask(1, "n1");
  while (endless.begun() == 0) std::this_thread::yield();
  cluster.cancel(1);
  REQUIRE(cluster.wait_answers(1));
  CHECK(cluster.answers_.at(1).failure.code == "cancelled");
}

}  // namespace
}  // namespace weft
