// port/capture with a played Python: what is asked of one process, what the
// library has already, and what of several is told where one fails.
#include "runtime/ports/capture_port.hpp"

#include <doctest/doctest.h>

#include <future>

#include "embedded/tests/runtime/data/played_capture.sh"
#include "tests/actors/role_fixture.hpp"
#include "tests/sandbox_fixture.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

struct PlayedCaptures {
  TestFolder folder;
  FixtureBlobs blobs;
  Library library{folder.path / "library.db"};
  CapturePort port{blobs, installation(), folder.path / "scratch",
                   CapturePort::Limits{std::int64_t{1} << 30, 60'000}, library};

  Installation installation() const {
    const fs::path python = folder.path / "python";
    fs::create_directories(python / "weft");
    write_file(python / "played", embedded::tests_runtime_data_played_capture);
    fs::permissions(python / "played", fs::perms(0755));
    Installation installation;
    installation.python = python / "played";
    installation.worker_path = python;
    installation.python_roots = {python};
    return installation;
  }

  CaptureReply capture(const std::vector<std::string>& texts) {
    CaptureRequest request;
    request.effect = 7;
    request.problem_name = "problem.py";
    request.wall_ms = 20'000;
    request.problem = blobs.put(texts.front());
    for (std::size_t i = 1; i < texts.size(); ++i) {
      request.others.push_back(blobs.put(texts[i]));
    }
    std::promise<Message> output;
    port.start(request, [&](Message reply) { output.set_value(reply); });
    return std::get<CaptureReply>(output.get_future().get());
  }

  /// All graphs of a reply, in order.
  std::vector<std::string> graphs(const CaptureReply& reply) {
    std::vector<std::string> found;
    if (!reply.graph.empty()) found.push_back(blobs.get(reply.graph).value());
    for (const std::string& blob : reply.others) {
      found.push_back(blobs.get(blob).value());
    }
    return found;
  }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("graphs come in the order of the problems") {
  PlayedCaptures played;
  const auto reply = played.capture({"a", "b", "c"});
  CHECK(reply.failure.message == "");
  CHECK(reply.effect == 7);
  CHECK(!reply.from_library);
  CHECK(played.graphs(reply) == Texts{"a of 3", "b of 3", "c of 3"});
  CHECK(fs::is_empty(played.folder.path / "scratch"));
}

TEST_CASE("what the library has is not captured again, and keeps its place") {
  PlayedCaptures played;
  CHECK(!played.capture({"b"}).from_library);
  const auto reply = played.capture({"a", "b", "c"});
  CHECK(reply.failure.message == "");
  CHECK(!reply.from_library);
  CHECK(played.graphs(reply) == Texts{"a of 2", "b of 1", "c of 2"});
  const auto again = played.capture({"c", "b"});
  CHECK(again.from_library);
  CHECK(played.graphs(again) == Texts{"c of 2", "b of 1"});
}

TEST_CASE("of several, the graphs before the one that fails are told") {
  PlayedCaptures played;
  const auto reply = played.capture({"a", "bad", "c"});
  CHECK(reply.failure.code == "wrong_input");
  CHECK(reply.failure.message == "it is bad");
  CHECK(played.graphs(reply) == Texts{"a of 3"});
  CHECK(played.graphs(played.capture({"bad", "a"})).empty());
}

TEST_CASE("one that takes too long is told with the time that each has") {
  PlayedCaptures played;
  const auto reply = played.capture({"a", "slow", "c"});
  CHECK(reply.failure.code == "wrong_input");
  CHECK(reply.failure.message.starts_with(
      "problem.py did not return within 20 s of "));
  CHECK(played.graphs(reply) == Texts{"a of 3"});
}
