// How far a run is, and how long it may go on.
#include "actors/role.hpp"
#include "messages/vocabulary.hpp"
#include "runtime/progress/bars.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

/// A run of two subgraphs as a list of envelopes, a second between two.
struct Tale {
  std::vector<Envelope> events;

  void say(Address src, Address dst, const Message& message,
           std::int64_t after_s = 1) {
    const std::int64_t before = events.empty() ? 0 : events.back().at_us;
    Envelope envelope{0, 0, before + after_s * kSecond, "", "", "", ""};
    envelope.src = std::move(src);
    envelope.dst = std::move(dst);
    envelope.type = name_of(message);
    envelope.body = encode(message);
    events.push_back(std::move(envelope));
  }
  void begin(const RunStart& start) {
    say(address::user, address::extractor, start);
    say(address::extractor, address::dispatcher, Dispatch{}, 10);
    for (const char* id : {"a", "b"}) {
      say(address::dispatcher, address::agent(id), OptimizeSubgraph{}, 0);
      for (const char* seed : {"0", "1", "2"}) {
        say(address::agent(id), address::worker(id, seed), VerifySeed{}, 0);
      }
    }
  }
  void judge(const char* id, const char* seed) {
    say(address::worker(id, seed), address::agent(id), SeedResult{});
  }
  void end(const char* id) {
    SubgraphDone done;
    done.subgraph = id;
    say(address::agent(id), address::dispatcher, done, 5);
  }
  void compose() { say(address::dispatcher, address::composer, Compose{}); }
  void finish() { say(address::composer, address::user, RunFinished{}, 20); }
  /// A whole run's: 10 s of capture, 11 of kernels, 20 of composing.
  static Tale whole(const RunStart& start) {
    Tale tale;
    tale.begin(start);
    tale.end("a");
    tale.end("b");
    tale.compose();
    tale.finish();
    return tale;
  }
};

Stages after(const Tale& tale) {
  Stages stages;
  for (const Envelope& event : tale.events) stages.take(event);
  return stages;
}

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

/// A run directory with that run's journal.
void keep(const fs::path& folder, Tale tale) {
  fs::create_directories(folder);
  auto journal = value(Journal::create(folder / "journal.db", Sync::normal));
  // The journal gives each event the time that it has.
  value(journal.append(tale.events));
}

TEST_CASE("a run goes through its stages, and its candidates are counted") {
  Tale tale;
  CHECK_FALSE(after(tale).current());
  tale.begin({});
  CHECK(after(tale).current() == Stage::kernels);
  CHECK(after(tale).length_us(Stage::capture) == 10 * kSecond);
  CHECK(after(tale).kernels_share() == 0);
  tale.judge("a", "0");
  CHECK(after(tale).candidates_judged() == 1);
  // One of three, and a last timing, of one of two.
  CHECK(after(tale).kernels_share() == doctest::Approx(0.125));
  tale.end("a");
  tale.end("a");
  CHECK(after(tale).subgraphs_done() == 1);
  tale.compose();
  CHECK(after(tale).current() == Stage::compose);
  tale.finish();
  CHECK(after(tale).is_over());
  CHECK(bars(after(tale), {}, 0).empty());
}

TEST_CASE("the time for which a run was stopped is no stage's") {
  Tale tale;
  tale.begin({});
  Stages stages = after(tale);
  const std::int64_t later = tale.events.back().at_us + 3600 * kSecond;
  stages.go_on(later);
  CHECK(stages.begun_us(Stage::kernels) == later);
  CHECK(stages.length_us(Stage::capture) == 10 * kSecond);
}

TEST_CASE("where no earlier run is known nothing is said of the time left") {
  Tale tale;
  tale.begin({});
  tale.end("a");
  const Stages stages = after(tale);
  const std::int64_t now = tale.events.back().at_us + kSecond;
  CHECK_FALSE(left_us(stages, {}, now));
  const auto lines = bars(stages, {}, now);
  REQUIRE(lines.size() == 3);
  CHECK(has(lines[0], "capture  [########################]  10.0 s"));
  CHECK(has(lines[1], "[############............]  6.0 s  1 of 2 subgraphs"));
  CHECK(has(lines[2], "compose  [........................]"));
  for (const std::string& line : lines) CHECK(line.size() <= 78);
}

TEST_CASE("the time left is what earlier runs took, less what is gone") {
  const std::vector<EarlierRun> same = {
      {true, 2, {10 * kSecond, 40 * kSecond, 20 * kSecond}},
      {false, 2, {kSecond, kSecond, kSecond}}};
  Tale tale;
  tale.begin({});
  const Stages stages = after(tale);
  const std::int64_t begun = *stages.begun_us(Stage::kernels);
  CHECK(left_us(stages, same, begun + 15 * kSecond) == 45 * kSecond);
  const std::string text = all(bars(stages, same, begun + 15 * kSecond));
  CHECK(has(text, "about 50 s left, by 1 earlier run of this problem"));
  // Longer than they took: nobody knows any more.
  CHECK_FALSE(left_us(stages, same, begun + 41 * kSecond));
  CHECK_FALSE(has(all(bars(stages, same, begun + 41 * kSecond)), "left"));
}

TEST_CASE("of another problem the kernels' time goes by their number") {
  const std::vector<EarlierRun> others = {
      {false, 8, {10 * kSecond, 40 * kSecond, 20 * kSecond}}};
  CHECK(expected_us(others, Stage::kernels, 2) == 10 * kSecond);
  CHECK(expected_us(others, Stage::compose, 2) == 20 * kSecond);
  CHECK_FALSE(expected_us(others, Stage::kernels, 0));
  CHECK_FALSE(expected_us({}, Stage::capture, 2));
}

TEST_CASE("runs beside this one tell, where they are whole and like it") {
  Directory folder;
  RunStart start;
  start.problem = "here";
  start.machine.name = "m";
  RunStart other = start;
  other.problem = "there";
  RunStart slower = start;
  slower.options.timing_ms += 1;
  Tale stopped;
  stopped.begin(start);
  keep(folder / "own", Tale::whole(start));
  keep(folder / "same", Tale::whole(start));
  keep(folder / "other", Tale::whole(other));
  keep(folder / "slower", Tale::whole(slower));
  keep(folder / "stopped", stopped);
  fs::create_directories(folder / "nothing");
  std::ofstream(folder / "damaged") << "no folder";

  const auto runs = runs_like(start, folder / "own", {});
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].is_same_problem);
  CHECK_FALSE(runs[1].is_same_problem);
  CHECK(runs[0].subgraphs == 2);
  CHECK(runs[0].length_us[0] == 10 * kSecond);
  CHECK(runs[0].length_us[1] == 11 * kSecond);
  CHECK(runs[0].length_us[2] == 20 * kSecond);
  CHECK(runs_like(slower, folder / "slower", {}).empty());
}

}  // namespace
}  // namespace weft
