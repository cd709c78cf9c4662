#include "runtime/ports/verify_port.hpp"

#include <semaphore>

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

class NoBlobs : public Blobs {
 public:
  Result<std::string> get(std::string_view) override {
    return fail(ErrorCode::failed, "there are no blobs");
  }
  std::string put(std::string_view) override { return ""; }
};

TEST_CASE("what candidates left is removed, and what is not theirs stays") {
  const Directory folder;
  NoBlobs blobs;
  KernelCache cache(folder / "builds", folder / "builds-scratch", {});
  VerifyPort::Options options;
  options.scratch = folder / "cpu";
  options.slots = 2;
  VerifyPort port(blobs, cache, std::move(options));
  for (const char* slot : {"cpu/slot0", "cpu/slot1", "cpu/subjects"}) {
    fs::create_directories(folder / slot);
    std::ofstream(folder / slot / "large") << "bytes";
  }
  port.empty_idle_slots();
  CHECK(fs::is_empty(folder / "cpu/slot0"));
  CHECK(fs::is_empty(folder / "cpu/slot1"));
  CHECK(fs::exists(folder / "cpu/subjects/large"));
  // Its slots are there for others again.
  port.empty_idle_slots();
}

class OneBlob : public Blobs {
 public:
  Result<std::string> get(std::string_view) override { return "text"; }
  std::string put(std::string_view) override { return ""; }
};

/// How many oracles two checks at once start, each of which takes a while.
int oracles_started(std::int64_t patience_ms) {
  const Directory folder;
  const std::string started = (folder / "started").string();
  const fs::path python = folder / "python";
  std::ofstream(python) << "#!/bin/sh\necho one >>" << started
                        << "\nwhile read -r line; do sleep 0.2\n"
                           "echo '{\"id\": 1, \"ok\": true}'; done\n";
  fs::permissions(python, fs::perms::owner_all);
  OneBlob blobs;
  KernelCache cache(folder / "builds", folder / "builds-scratch", {});
  VerifyPort::Options options;
  options.installation.python = python;
  options.scratch = folder / "scratch";
  options.logs = folder / "logs";
  options.slots = 2;
  options.patience_ms = patience_ms;
  VerifyPort port(blobs, cache, std::move(options));
  CheckRequest request;
  request.subject.target = "model";
  request.subject.against = "reference";
  request.subject.source = "module";
  request.wall_ms = 60'000;
  std::counting_semaphore<> answered(0);
  for (int i = 0; i < 2; ++i) {
    port.start(request, [&answered](const Message& message) {
      CHECK_FALSE(std::get<CheckReply>(message).failure);
      answered.release();
    });
  }
  for (int i = 0; i < 2; ++i) answered.acquire();
  std::ifstream lines(started);
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  return count;
}

TEST_CASE("an oracle at work is waited for before another is started") {
  CHECK(oracles_started(60'000) == 1);
  CHECK(oracles_started(0) == 2);
}

}  // namespace
}  // namespace weft
