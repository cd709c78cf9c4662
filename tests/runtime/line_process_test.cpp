#include "runtime/sandbox/line_process.hpp"

#include <thread>

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

LineProcess shell(const std::string& script) {
  return value(LineProcess::start({{"sh", "-c", script}, {}, {}}));
}

/// Alive, and not just waiting to be reaped.
bool lives(const std::string& pid) {
  const std::string status = load("/proc/" + pid + "/stat");
  const auto name_end = status.rfind(')');
  return name_end != std::string::npos && status[name_end + 2] != 'Z';
}

/// It was killed before; the kernel may take a moment.
bool ends(const std::string& pid) {
  for (int i = 0; i < 10'000'000 && lives(pid); ++i) std::this_thread::yield();
  return !lives(pid);
}

TEST_CASE("a line is asked, a line comes back") {
  auto process = value(LineProcess::start({{"cat"}, {}, {}}));
  CHECK(value(process.ask("one", 10'000)) == "one");
  CHECK(value(process.ask("two words", 10'000)) == "two words");
}

TEST_CASE("a line that no buffer holds arrives whole") {
  auto process = shell("read -r line; echo ${#line}");
  CHECK(value(process.ask(std::string(500'000, 'x'), 60'000)) == "500000");
}

TEST_CASE("a program that is not there is missing") {
  const auto process = LineProcess::start({{"/nonexistent/program"}, {}, {}});
  REQUIRE(!process);
  CHECK(process.error().code == ErrorCode::missing);
  CHECK(says(process, "/nonexistent/program"));
}

TEST_CASE("a process that does not answer is killed, with its children") {
  auto process = shell("sleep 1000 & echo $!; read a; read b; wait");
  const std::string child = value(process.ask("", 10'000));
  CHECK(lives(child));
  CHECK(says(process.ask("anybody?", 50), "no answer within the time limit"));
  CHECK(ends(child));
}

TEST_CASE("a process dies with its object") {
  std::string pid;
  {
    auto process = shell("echo $$; exec sleep 1000");
    pid = value(process.ask("", 10'000));
    CHECK(lives(pid));
  }
  CHECK(!lives(pid));
}

TEST_CASE("asking a process that has ended fails, and kills nobody") {
  auto process = shell("read a; echo last");
  CHECK(value(process.ask("", 10'000)) == "last");
  // Its end of the pipe closes at some time: until then the reading fails,
  // then the writing, which would raise SIGPIPE.
  for (int i = 0; i < 3; ++i) CHECK(!process.ask("still there?", 10'000));
}

TEST_CASE("an answer without an end is no answer") {
  auto process = shell("cat /dev/zero");
  CHECK(says(process.ask("", 60'000), "has no end"));
}

TEST_CASE("a waiting question fails when another thread kills the process") {
  auto process = shell("echo ready; sleep 1000");
  CHECK(value(process.ask("", 10'000)) == "ready");
  std::jthread killer([&] { process.kill(); });
  CHECK(says(process.ask("?", 600'000), "has ended"));
}

TEST_CASE("an answer that is not wanted any more may still come soon") {
  auto process = shell("read a; sleep 0.3; echo late; read b; echo next");
  std::stop_source unwanted;
  unwanted.request_stop();
  const auto answer = process.ask("", 600'000, unwanted.get_token(), 600'000);
  CHECK(value(answer) == "late");
  CHECK(value(process.ask("", 600'000)) == "next");
}

TEST_CASE("nobody waits long for an answer that is not wanted any more") {
  auto process = shell("echo $$; exec sleep 1000");
  const std::string pid = value(process.ask("", 600'000));
  std::stop_source unwanted;
  std::jthread asker([&] { unwanted.request_stop(); });
  CHECK(says(process.ask("?", 600'000, unwanted.get_token(), 50),
             "no answer within the time limit"));
  CHECK(ends(pid));
}

/// The answer of a shell that writes to that log; it has ended.
std::string answer_of(const std::string& script,
                      const std::filesystem::path& log) {
  auto process = value(LineProcess::start(
      {{"sh", "-c", script}, {{"WEFT_TEST_WORD", "woven"}}, log}));
  return value(process.ask("", 60'000));
}

TEST_CASE("the environment is added to, and errors go to the log") {
  Directory folder;
  CHECK(answer_of("echo complaint >&2; echo $WEFT_TEST_WORD; read a",
                  folder / "log") == "woven");
  CHECK(load(folder / "log") == "complaint\n");
}

TEST_CASE("a log has an end, and keeps what was printed last") {
  Directory folder;
  const std::string script =
      "echo first >&2; head -c 20000000 /dev/zero | tr '\\0' x >&2; "
      "echo last >&2; echo done";
  for (int i = 0; i < 2; ++i) {  // the second finds it full
    CHECK(answer_of(script, folder / "log") == "done");
  }
  const std::string log = load(folder / "log");
  CHECK(log.starts_with("first\nxxx"));
  CHECK(log.ends_with("xxxlast\n\n"));
  CHECK(log.find("bytes more were printed") != std::string::npos);
  CHECK(log.size() < BoundedLog::bytes_max + 4 * BoundedLog::tail_bytes);
}

TEST_CASE("a dead process's last words are in its log") {
  Directory folder;
  auto process = value(LineProcess::start(
      {{"sh", "-c", "read a; echo why >&2; exit 1"}, {}, folder / "log"}));
  CHECK(!process.ask("", 60'000));
  CHECK(load(folder / "log") == "why\n");
}

}  // namespace
}  // namespace weft
