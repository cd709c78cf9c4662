// port/capture with a played Python: what is asked of one process, what the
// library has already, and what of several is told where one fails.
#include "runtime/ports/capture_port.hpp"

#include <doctest/doctest.h>

#include <future>
#include <map>

#include "tests/sandbox_fixture.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

// Writes "graph of <the problem's text>"; a problem that says "bad" is refused,
// one that says "dies" ends it.
constexpr const char* kPlayed = R"(#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --problem) problem=$(cat "$2"); shift 2;;
    --out)
      case "$problem" in
        *bad*)
          echo '{"ok": false, "error": {"code": "wrong_input", "message": "it is bad"}}'
          exit 1;;
        *dies*) kill -ALRM $$;;
      esac
      echo "graph of $problem" > "$2"
      echo '{"ok": true, "keeps": true}'
      shift 2;;
    *) shift;;
  esac
done
)";

struct MapOfBlobs : Blobs {
  Result<std::string> get(std::string_view hash) override {
    const auto found = bytes.find(std::string(hash));
    if (found == bytes.end()) return fail(ErrorCode::failed, "no such blob");
    return found->second;
  }
  std::string put(std::string_view text) override {
    const std::string hash = "blob of " + std::string(text);
    bytes[hash] = text;
    return hash;
  }
  std::map<std::string, std::string> bytes;
};

struct Bench {
  TestFolder folder;
  MapOfBlobs blobs;
  Library library{folder.path / "library.db"};
  CapturePort port{blobs, installation(), folder.path / "scratch",
                   std::int64_t{1} << 30, library};

  Installation installation() const {
    const fs::path python = folder.path / "python";
    fs::create_directories(python / "weft");
    write_file(python / "played", kPlayed);
    fs::permissions(python / "played", fs::perms(0755));
    Installation made;
    made.python = python / "played";
    made.worker_path = python;
    made.python_roots = {python};
    return made;
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
    std::promise<Message> said;
    port.start(request, [&](Message reply) { said.set_value(reply); });
    return std::get<CaptureReply>(said.get_future().get());
  }

  std::string text(const std::string& blob) { return blobs.get(blob).value(); }
};

}  // namespace

TEST_CASE("graphs come in the order of the problems") {
  Bench bench;
  const auto reply = bench.capture({"a", "b", "c"});
  CHECK(reply.failure.message == "");
  CHECK(reply.effect == 7);
  CHECK(!reply.kept);
  CHECK(bench.text(reply.graph) == "graph of a\n");
  REQUIRE(reply.others.size() == 2);
  CHECK(bench.text(reply.others[0]) == "graph of b\n");
  CHECK(bench.text(reply.others[1]) == "graph of c\n");
  CHECK(!fs::exists(bench.folder.path / "scratch" / "capture"));
}

TEST_CASE("what the library has is not captured again, and keeps its place") {
  Bench bench;
  CHECK(!bench.capture({"b"}).kept);
  // Were it captured again, it would be refused now.
  write_file(
      bench.folder.path / "played",
      std::string(kPlayed).replace(std::string(kPlayed).find("*bad*"), 5, "b"));
  const auto reply = bench.capture({"a", "b", "c"});
  CHECK(reply.failure.message == "");
  CHECK(!reply.kept);
  REQUIRE(reply.others.size() == 2);
  CHECK(bench.text(reply.graph) == "graph of a\n");
  CHECK(bench.text(reply.others[0]) == "graph of b\n");
  CHECK(bench.text(reply.others[1]) == "graph of c\n");
  const auto again = bench.capture({"c", "b"});
  CHECK(again.kept);
  CHECK(bench.text(again.graph) == "graph of c\n");
}

TEST_CASE("of several, the graphs before the one that fails are told") {
  Bench bench;
  const auto reply = bench.capture({"a", "bad", "c"});
  CHECK(reply.failure.code == "wrong_input");
  CHECK(reply.failure.message == "it is bad");
  CHECK(bench.text(reply.graph) == "graph of a\n");
  CHECK(reply.others.empty());
  CHECK(bench.capture({"bad", "a"}).graph == "");
}

TEST_CASE("one that takes too long is told with the time that each has") {
  Bench bench;
  const auto reply = bench.capture({"a", "dies", "c"});
  CHECK(reply.failure.code == "wrong_input");
  CHECK(reply.failure.message.starts_with(
      "problem.py did not return within 20 s of "));
  CHECK(bench.text(reply.graph) == "graph of a\n");
  CHECK(reply.others.empty());
}
