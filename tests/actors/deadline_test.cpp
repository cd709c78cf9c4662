// When a run's time is over: what is under way is dropped, and what was
// verified as a whole by then is delivered.
#include "actors/dispatcher.hpp"
#include "actors/extractor.hpp"
#include "tests/actors/composer_fixture.hpp"

using namespace weft;

namespace {

constexpr std::int64_t kSecondUs = 1'000'000;

/// 20 s of the budget are left when the module is composed.
struct LateFixture : ComposerFixture {
  LateFixture() : ComposerFixture("cpu", "won", "weft", 20 * kSecondUs) {
    timer = single<TimerRequest>(sent);
  }
  /// The files that are written then.
  std::vector<Outgoing> is_over() {
    now_us = 22 * kSecondUs;
    return say(address::clock, TimerFired{timer.effect});
  }
  std::string report(const std::vector<Outgoing>& output) {
    for (const FileToWrite& file : single<WriteFilesRequest>(output).files) {
      if (file.path == "report.md") return *blobs.get(file.blob);
    }
    return "";
  }
  RunFinished ended(const std::vector<Outgoing>& output) {
    const auto effect = single<WriteFilesRequest>(output).effect;
    return single<RunFinished>(
        say(address::files, WriteFilesReply{effect, {}}));
  }
  TimerRequest timer;
};

bool has_module(const std::vector<Outgoing>& output) {
  const auto files = single<WriteFilesRequest>(output).files;
  return std::ranges::any_of(files, [](const FileToWrite& file) {
    return file.path == "composed/model_new.py";
  });
}

}  // namespace

TEST_CASE("a check that goes on when the time is over is dropped") {
  LateFixture composer;
  CHECK(composer.timer.after_ms > 20'000);  // a check may be about to end
  CHECK(composer.timer.after_ms < 25'000);
  const auto check = single<CheckRequest>(composer.sent);
  const auto output = composer.is_over();
  CHECK(only<CancelEffect>(output).size() == 1);
  CHECK_FALSE(has_module(output));
  const RunFinished finished = composer.ended(output);
  CHECK(finished.exit_code == 1);
  CHECK(finished.summary.contains("was over before a module was checked"));
  // Its answer comes too late to count.
  CheckReply reply;
  reply.effect = check.effect;
  reply.verdict.correct = true;
  CHECK(only<WriteFilesRequest>(composer.say(address::verify, reply)).empty());
}

TEST_CASE("a module that is right is delivered without its timing") {
  LateFixture composer;
  composer.checked(true);
  single<TimeRequest>(composer.sent);
  const auto output = composer.is_over();
  CHECK(has_module(output));
  CHECK(composer.report(output).contains(kOutOfTime));
  CHECK(composer.ended(output).exit_code == 0);
}

TEST_CASE("a module that is timed is whole when the machine is not yet known") {
  LateFixture composer;
  composer.checked(true);
  composer.timed(2.0);
  const auto output = composer.is_over();
  CHECK(has_module(output));
  CHECK_FALSE(composer.report(output).contains(kOutOfTime));
  CHECK(composer.ended(output).exit_code == 0);
}

TEST_CASE("a slower module does not pass for the next one, which is checked") {
  LateFixture composer;
  composer.checked(true);
  composer.timed(0.5);
  composer.timed(0.5);  // again, before it is believed
  single<CheckRequest>(composer.sent);
  const auto output = composer.is_over();
  CHECK_FALSE(has_module(output));
  CHECK(composer.ended(output).exit_code == 1);
}

TEST_CASE("nothing is dropped where the files are being written") {
  LateFixture composer;
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  const auto files = composer.files();
  CHECK(composer.is_over().empty());
  const auto end =
      composer.say(address::files, WriteFilesReply{files.effect, {}});
  CHECK(single<RunFinished>(end).exit_code == 0);
}

TEST_CASE("a run whose time is over before there is a graph ends and says so") {
  RunFixture<Extractor> extractor;
  RunStart run = small_run(extractor.blobs);
  run.options.budget_ms = 5'000;
  const auto sent = extractor.say(address::user, run);
  const auto timer = single<TimerRequest>(sent);
  CHECK(timer.after_ms == 5'000);
  const auto finished = single<RunFinished>(
      extractor.say(address::clock, TimerFired{timer.effect}));
  CHECK(finished.exit_code == 1);
  CHECK(
      finished.summary.contains("5.0 s was over before small.py was captured"));
  const auto capture = single<CaptureRequest>(sent);
  const std::string graph =
      extractor.blobs.put(graph_to_json(two_piece_graph()));
  const auto late = extractor.say(address::capture,
                                  CaptureReply{capture.effect, {}, graph, 9});
  CHECK(only<WriteFilesRequest>(late).empty());
}

TEST_CASE("a graph that is there in time goes to the dispatcher once") {
  RunFixture<Extractor> extractor;
  RunStart run = small_run(extractor.blobs);
  run.options.budget_ms = 5'000;
  const auto sent = extractor.say(address::user, run);
  const std::string graph =
      extractor.blobs.put(graph_to_json(two_piece_graph()));
  const auto files = single<WriteFilesRequest>(extractor.say(
      address::capture,
      CaptureReply{single<CaptureRequest>(sent).effect, {}, graph, 9}));
  const auto handed =
      extractor.say(address::files, WriteFilesReply{files.effect, {}});
  CHECK(only<Dispatch>(handed).size() == 1);
  const auto timer = single<TimerRequest>(sent);
  CHECK(extractor.say(address::clock, TimerFired{timer.effect}).empty());
}
