#include "tests/actors/composer_fixture.hpp"

using namespace weft;

namespace {

std::vector<std::string> paths_of(const WriteFilesRequest& files) {
  std::vector<std::string> paths;
  for (const auto& file : files.files) paths.push_back(file.path);
  return paths;
}

}  // namespace

TEST_CASE("the winners are composed, verified, timed and reported") {
  ComposerFixture composer;
  CHECK(composer.holds(composer.composed(), 0));
  CHECK(composer.holds(composer.composed(), 1));
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(paths_of(composer.files()) ==
        std::vector<std::string>{"report.md", "results.csv", "result.json",
                                 "composed/model_new.py"});
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a wrong composition drops the kernel nearest to its tolerance") {
  ComposerFixture composer;
  composer.checked(false);
  CHECK(composer.holds(composer.composed(), 0));
  CHECK(!composer.holds(composer.composed(), 1));
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a composition that was slower once is timed again") {
  ComposerFixture composer;
  composer.checked(true);
  composer.timed(0.5);
  composer.timed(2.0);
  composer.probed();
  CHECK(composer.blobs.get(composer.files().files[0].blob)
            ->contains("Timed twice"));
  CHECK(composer.finish().summary.find("2.00") != std::string::npos);
}

TEST_CASE("one that was slower and cannot be timed again gives way") {
  ComposerFixture composer;
  composer.checked(true);
  composer.timed(0.5);
  composer.fails<TimeRequest, TimeReply>("out of memory");
  CHECK(!composer.holds(composer.composed(), 0));
}

TEST_CASE("one slower twice gives way to the framework's forward") {
  ComposerFixture composer;
  composer.checked(true);
  composer.timed(0.5);
  composer.timed(0.5);
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true);
  composer.timed(0.5);  // its own forward: there is nothing left to drop
  composer.probed();
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.find("no kernel was tried") != std::string::npos);
}

TEST_CASE(
    "a second timing confirms that a composition is slower, noise or not") {
  for (const bool is_old : {false, true}) {
    ComposerFixture composer("cpu", "won", "weft", 0, !is_old);
    composer.checked(true);
    composer.timed(0.9);
    composer.timed(0.9, "", 0.2);
    if (is_old) {
      composer.probed();  // as runs before this rule were decided
      CHECK(composer.finish().summary.contains("0.90"));
    } else {
      CHECK(!composer.holds(composer.composed(), 0));
    }
  }
}

TEST_CASE("a composition that cheats in a timed call is not accepted") {
  ComposerFixture composer;
  composer.checked(true);
  composer.timed(9.0, "wrong in a timed call");
  CHECK(!composer.holds(composer.composed(), 1));
}

TEST_CASE("when not even the bare model passes, the run is not verified") {
  ComposerFixture composer;
  composer.checked(false);
  composer.checked(false);
  composer.checked(false);
  CHECK(paths_of(composer.files()) ==
        std::vector<std::string>{"report.md", "results.csv", "result.json"});
  CHECK(composer.finish().exit_code == 1);
}

TEST_CASE("an oracle that dies is asked once more, then the run ends") {
  ComposerFixture composer;
  composer.fails<CheckRequest, CheckReply>("the oracle died");
  const auto finished = single<RunFinished>(composer.sent);
  CHECK(finished.exit_code == 1);
  CHECK(finished.summary.find("oracle died") != std::string::npos);
}

TEST_CASE("what is right and cannot be timed is reported so") {
  ComposerFixture composer;
  composer.checked(true);
  composer.fails<TimeRequest, TimeReply>("the baseline failed");
  const std::string report =
      *composer.blobs.get(composer.files().files[0].blob);
  CHECK(report.contains("Verified, but not timed: the baseline failed"));
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a report is written even when the machine cannot be probed") {
  ComposerFixture composer;
  composer.checked(true);
  composer.timed(2.0);
  composer.fails<ProbeRequest, ProbeReply>("no");
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("proven kernels are composed and verified, and nothing is timed") {
  ComposerFixture composer("triton", "proven");
  CHECK(composer.holds(composer.composed(), 0));
  composer.checked(true);
  CHECK(only<TimeRequest>(composer.sent).empty());
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("2 of 2"));
  CHECK(finished.summary.contains("not timed: there is no GPU here"));
}

TEST_CASE("a module far from eager is composed again where both rules count") {
  ComposerFixture composer("cpu", "won", "both");
  const auto first = single<CheckRequest>(composer.sent);
  CHECK(first.rules == std::vector<std::string>{"weft", "kernelbench"});
  CHECK(first.with_compile);
  composer.checked(true, "outside", "within");
  composer.timed(2.0);
  // With one kernel, the nearer one: is that near?
  const auto sought = single<CheckRequest>(composer.sent);
  CHECK(sought.rules == std::vector<std::string>{"kernelbench"});
  CHECK(composer.holds(composer.composed(), 0));
  CHECK(!composer.holds(composer.composed(), 1));
  composer.checked(true, "within");
  CHECK(composer.holds(composer.composed(), 0));  // checked by both rules now
  CHECK(single<CheckRequest>(composer.sent).rules == first.rules);
  composer.checked(true, "within");
  composer.timed(1.5);
  composer.probed();
  const auto files = composer.files();
  CHECK(paths_of(files) ==
        std::vector<std::string>{"report.md", "results.csv", "result.json",
                                 "composed/model_new.py",
                                 "composed/kernelbench/model_new.py"});
  const std::string both = *composer.blobs.get(files.files[3].blob);
  const std::string near = *composer.blobs.get(files.files[4].blob);
  CHECK((composer.holds(both, 0) && composer.holds(both, 1)));
  CHECK((composer.holds(near, 0) && !composer.holds(near, 1)));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("another module is within: 1.50×"));
}

TEST_CASE("where no kernel is near to eager the framework's forward is") {
  ComposerFixture composer("cpu", "won", "both");
  composer.checked(true, "outside", "within");
  composer.timed(2.0);
  composer.checked(true, "outside");
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "within");
  composer.timed(1.0);
  composer.probed();
  CHECK(composer.files().files.size() == 5);
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("no second module is made where none is wanted or could be") {
  struct Case {
    const char *accept, *near, *compiled;
  };
  for (const auto& [accept, near, compiled] :
       {Case{"weft", "outside", "within"}, Case{"both", "within", "within"},
        Case{"both", "outside", "outside"}, Case{"both", "failed", "failed"},
        Case{"both", "", ""}}) {
    CAPTURE(accept);
    CAPTURE(near);
    ComposerFixture composer("cpu", "won", accept);
    composer.checked(true, near, compiled);
    composer.timed(2.0);
    composer.probed();
    CHECK(composer.files().files.size() == 4);
    CHECK(composer.finish().exit_code == 0);
  }
}

TEST_CASE("by the near rule alone there is one module, and it is near") {
  ComposerFixture composer("cpu", "won", "kernelbench");
  composer.checked(true, "outside", "outside");
  composer.checked(true, "within");  // The search comes before all timing.
  composer.checked(true, "within");
  composer.timed(1.5);
  composer.probed();
  const auto files = composer.files();
  CHECK(files.files.size() == 4);
  CHECK(!composer.holds(*composer.blobs.get(files.files[3].blob), 1));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains(
      "generated kernels for 1 of 2 distinct subgraphs"));
  CHECK(finished.summary.contains("; within KernelBench's tolerance"));
}

TEST_CASE("by the near rule alone what is far is not verified") {
  ComposerFixture composer("cpu", "won", "kernelbench");
  composer.checked(true, "outside", "within");
  composer.checked(true, "outside");
  composer.checked(true, "outside");  // Model's own forward is outside, too.
  composer.probed();
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 1);
  CHECK(finished.summary.contains("draw 1"));
}

TEST_CASE("a near module that cannot be timed gives way to Model's forward") {
  ComposerFixture composer("cpu", "won", "both");
  composer.checked(true, "outside", "within");
  composer.timed(2.0);
  composer.checked(true, "within");
  composer.checked(true, "within");
  composer.fails<TimeRequest, TimeReply>("out of memory");
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "within");
  composer.timed(1.0);
  composer.probed();
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a near module slower than eager twice gives way, too") {
  ComposerFixture composer("cpu", "won", "both");
  composer.checked(true, "outside", "within");
  composer.timed(2.0);
  composer.checked(true, "within");
  composer.checked(true, "within");
  composer.timed(0.5);
  composer.timed(0.5);
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "within");
  composer.timed(0.5);
  composer.probed();
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("when the run's time is over the whole is checked, and not timed") {
  ComposerFixture composer("cpu", "won", "weft", 1);
  composer.now_us = 2;
  composer.checked(true);
  CHECK(composer.blobs.get(composer.files().files[0].blob)
            ->contains("time was over"));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("2 of 2 distinct subgraphs, not timed"));
}

TEST_CASE("a brief timing is made a little after the run's time") {
  ComposerFixture composer("cpu", "won", "weft", 1'000'000, true, 150);
  composer.now_us = 2'000'000;
  composer.checked(true);
  composer.timed(2.0);
  CHECK(composer.finish().exit_code == 0);

  ComposerFixture late("cpu", "won", "weft", 1'000'000, true, 150);
  late.now_us = 3'000'000;
  late.checked(true);
  CHECK(late.finish().summary.contains("not timed"));

  // Journals of earlier runs are replayed by their rule.
  ComposerFixture earlier("cpu", "won", "weft", 1'000'000, false, 150);
  earlier.now_us = 2'000'000;
  earlier.checked(true);
  CHECK(earlier.finish().summary.contains("not timed"));
}

TEST_CASE("a module that its user times is checked, and not timed") {
  ComposerFixture composer("cpu", "won", "weft", 0, false, 0);
  composer.checked(true);
  composer.probed();
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("2 of 2 distinct subgraphs, not timed"));
}

TEST_CASE("when the run's time is over a wrong whole loses all kernels") {
  ComposerFixture composer("cpu", "won", "weft", 1);
  composer.now_us = 2;
  composer.checked(false);
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true);
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("when the run's time is over no near module is looked for long") {
  ComposerFixture composer("cpu", "won", "kernelbench", 1);
  composer.now_us = 2;
  composer.checked(true, "outside", "within");
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "within");  // nor is the machine asked about
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a timing has no more time than the run, and no torch.compile") {
  ComposerFixture composer("cpu", "won", "weft", 50'000'000);
  composer.checked(true);
  const auto timing = single<TimeRequest>(composer.sent);
  CHECK(timing.wall_ms == 50'000);
  CHECK(!timing.with_compile);
}
