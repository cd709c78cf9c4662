#include "runtime/ports/files_port.hpp"

#include <atomic>
#include <future>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "runtime/machine/files.hpp"
#include "tests/actors/role_fixture.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

struct World {
  Directory folder;
  FixtureBlobs blobs;

  /// What the port answers when asked to write one file.
  Failure write(const std::string& path, const std::string& blob) {
    FilesPort port(folder / "run", blobs);
    std::promise<WriteFilesReply> reply;
    port.start(WriteFilesRequest{7, {{path, blob}}}, [&](Message message) {
      reply.set_value(std::get<WriteFilesReply>(message));
    });
    const WriteFilesReply got = reply.get_future().get();
    CHECK(got.effect == 7);
    return got.failure;
  }
};

TEST_CASE("a file is written whole, with the folders it needs") {
  World world;
  CHECK(!world.write("kernels/sg_1/kernel.cpp", world.blobs.put("source")));
  CHECK(load(world.folder / "run/kernels/sg_1/kernel.cpp") == "source");
  const fs::directory_iterator files(world.folder / "run/kernels/sg_1");
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("threads that write one file at once all succeed, and it is whole") {
  constexpr int writers = 4;
  const Directory folder;
  const std::set<std::string> texts = {std::string(50'000, 'a'),
                                       std::string(90'000, 'b')};
  for (int round = 0; round < 100; ++round) {
    const fs::path file = folder / std::to_string(round).c_str();
    std::latch start(writers);
    std::atomic<int> failed = 0;
    std::atomic<int> torn = 0;
    std::vector<std::jthread> threads;
    for (int i = 0; i < writers; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        const auto& text = i % 2 ? *texts.begin() : *texts.rbegin();
        if (!write_file_whole(file, text)) ++failed;
        const auto read = read_file(file);
        if (!read || !texts.contains(*read)) ++torn;
      });
    }
    threads.clear();
    REQUIRE(failed.load() == 0);
    REQUIRE(torn.load() == 0);
  }
  const fs::directory_iterator files(folder / "");
  CHECK(std::distance(begin(files), end(files)) == 100);
}

TEST_CASE("writing again replaces what was there") {
  World world;
  CHECK(!world.write("report.md", world.blobs.put("first, and longer")));
  CHECK(!world.write("report.md", world.blobs.put("second")));
  CHECK(load(world.folder / "run/report.md") == "second");
}

TEST_CASE("nothing is written outside the run directory") {
  World world;
  const std::string blob = world.blobs.put("text");
  for (const std::string& path :
       {std::string("../escaped"), std::string("a/../../escaped"),
        (world.folder / "escaped").string(), std::string("")}) {
    CAPTURE(path);
    const Failure failure = world.write(path, blob);
    CHECK(failure.code == "failed");
    CHECK(failure.message.contains("inside the run directory"));
  }
  CHECK(!fs::exists(world.folder / "escaped"));
}

TEST_CASE("a blob that is not there is named") {
  World world;
  CHECK(world.write("report.md", "blob9").message.contains("blob9"));
}

TEST_CASE("a file that cannot be written says which and why") {
  World world;
  store(world.folder / "run", "a file where the folder should be");
  const Failure failure = world.write("report.md", world.blobs.put("text"));
  CHECK(failure.code == "missing");
  CHECK(failure.message.contains("run"));
}

TEST_CASE("reading says what is wrong with a file") {
  World world;
  CHECK(says(read_file(world.folder / "none"), "there is no file"));
  CHECK(says(read_file(world.folder / ""), "is a folder"));
  store(world.folder / "text", "words");
  CHECK(value(read_file(world.folder / "text")) == "words");
}

}  // namespace
}  // namespace weft
