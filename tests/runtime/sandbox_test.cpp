#include "runtime/sandbox/sandbox.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "runtime/sandbox/launcher.hpp"
#include "runtime/sandbox/order.hpp"
#include "tests/sandbox_fixture.hpp"

using namespace weft;
using End = SandboxReport::End;

namespace {

/// Sets a variable of this process for as long as it lives.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~WithVariable() {
    if (old_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, old_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string old_;
};

std::string quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += "'" + word + "' ";
  return line;
}

/// What a trusted command of this machine prints.
std::string output_of(const std::string& line) {
  FILE* pipe = popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t size; (size = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, size);
  }
  pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("an order survives its way through the command line") {
  SandboxOrder order;
  order.step = SandboxOrder::Step::inside;
  order.request.command = {"echo", "--scratch", "a b", ""};
  order.request.scratch = "/s p";
  order.request.readable = {"/r1", "/r2"};
  order.request.environment = {{"A", "1=2"}, {"B", ""}};
  order.request.limits = {1, 2, 3, 4, 5, 6, 7, 11};
  order.request.gpu = true;
  order.status_fd = 8;
  order.uid = 9;
  auto words = words_of(order);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  const auto read = read_order(pointers);
  REQUIRE(read.has_value());
  CHECK(words_of(*read) == words);
  CHECK(read->request.command == order.request.command);
  CHECK(read->request.environment == order.request.environment);
  CHECK(read->request.limits.scratch_bytes == 7);
  CHECK(read->request.limits.niceness == 11);
  CHECK(read->request.gpu);
}

TEST_CASE("an order with a flag of no meaning is refused") {
  std::string words[] = {"--scratch", "/s", "--frobnicate", "1", "--", "true"};
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  CHECK_FALSE(read_order(pointers).has_value());
}

TEST_CASE("the report holds what the command printed and its exit code") {
  const TestFolder scratch;
  const auto report = run_well(quick_request(
      scratch.path, {"sh", "-c", "echo out; echo err >&2; exit 7"}));
  CHECK(report.end == End::exited);
  CHECK(report.code == 7);
  CHECK(report.out == "out\n");
  CHECK(report.err == "err\n");
}

TEST_CASE("the report names the signal that ended the command") {
  const TestFolder scratch;
  const auto report =
      run_well(quick_request(scratch.path, {"sh", "-c", "kill -SEGV $$"}));
  CHECK(report.end == End::signalled);
  CHECK(report.code == SIGSEGV);
}

TEST_CASE("a command that does not exist is an error that names it") {
  const TestFolder scratch;
  const auto report =
      run_sandboxed(quick_request(scratch.path, {"no-such-program"}));
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().code == ErrorCode::failed);
  CHECK(report.error().message.find("no-such-program") != std::string::npos);
}

TEST_CASE("scratch is the working folder, by the same path as outside") {
  for (const char* parent : {"/tmp", "/dev/shm", "/var/tmp"}) {
    const TestFolder scratch(parent);
    write_file(scratch.path / "in", "hello");
    const auto report = run_well(quick_request(
        scratch.path, {"sh", "-c",
                       "pwd; cat in >" + (scratch.path / "out").string() +
                           "; echo more >>in"}));
    CHECK(report.out == scratch.path.string() + "\n");
    CHECK(report.err == "");
    CHECK(file_text(scratch.path / "out") == "hello");
    CHECK(file_text(scratch.path / "in") == "hellomore\n");
  }
}

TEST_CASE("a second run may change what the first one left") {
  const TestFolder scratch;
  run_well(quick_request(scratch.path, {"sh", "-c", "mkdir d; echo a >d/f"}));
  const auto report =
      run_well(quick_request(scratch.path, {"sh", "-c", "echo b >>d/f"}));
  CHECK(report.code == 0);
  CHECK(file_text(scratch.path / "d" / "f") == "a\nb\n");
}

TEST_CASE("a readable folder is seen at its path and cannot be written") {
  const TestFolder scratch, readable;
  std::filesystem::permissions(readable.path, std::filesystem::perms(0755));
  write_file(readable.path / "file", "text");
  auto request = quick_request(
      scratch.path,
      {"sh", "-c", "cat \"$1/file\"; echo x >\"$1/new\"", "sh", readable.path});
  request.readable = {readable.path};
  const auto report = run_well(request);
  CHECK(report.out == "text");
  CHECK(report.code != 0);
  CHECK_FALSE(std::filesystem::exists(readable.path / "new"));
}

TEST_CASE("the environment is the request's, not ours") {
  const WithVariable secret("WEFT_TEST_SECRET", "hunter2");
  const TestFolder scratch;
  auto request = quick_request(
      scratch.path,
      {"sh", "-c", "env | sort; cat /proc/*/environ 2>/dev/null"});
  request.environment = {{"GREETING", "hi there"}, {"HOME", "/tmp"}};
  const auto report = run_well(request);
  CHECK(report.out.find("GREETING=hi there\n") != std::string::npos);
  CHECK(report.out.find("HOME=/tmp\n") != std::string::npos);
  CHECK(report.out.find("hunter2") == std::string::npos);
}

TEST_CASE("what may wait for a core is nicer than we are") {
  const TestFolder scratch;
  auto request = quick_request(scratch.path, {"nice"});
  const int ours = std::stoi(run_well(request).out);
  request.limits.niceness = 5;
  CHECK(std::stoi(run_well(request).out) == ours + 5);
}

TEST_CASE("its session is as nice, where the kernel weighs sessions") {
  int is_enabled = 0;
  std::ifstream("/proc/sys/kernel/sched_autogroup_enabled") >> is_enabled;
  if (is_enabled == 0 || !std::filesystem::exists("/proc/self/autogroup")) {
    MESSAGE("this kernel has no groups of sessions");
    return;
  }
  const TestFolder scratch;
  auto request = quick_request(scratch.path, {"cat", "/proc/self/autogroup"});
  request.limits.niceness = 5;
  // "/autogroup-17 nice 5"
  CHECK(run_well(request).out.ends_with(
      " nice " + std::to_string(getpriority(PRIO_PROCESS, 0) + 5) + "\n"));
}

TEST_CASE("output above the limit is dropped and the command goes on") {
  const TestFolder scratch;
  auto request = quick_request(
      scratch.path,
      {"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; touch done"});
  request.limits.output_bytes = 1000;
  const auto report = run_well(request);
  CHECK(report.out == std::string(1000, 'x'));
  CHECK(std::filesystem::exists(scratch.path / "done"));
}

TEST_CASE("a pipe without a reader ends its writer, whoever ignores that") {
  const TestFolder scratch;
  const auto before = signal(SIGPIPE, SIG_IGN);
  const auto report = run_well(
      quick_request(scratch.path, {"grep", "SigIgn", "/proc/self/status"}));
  signal(SIGPIPE, before);
  const auto ignored =
      std::stoull(report.out.substr(report.out.find('\t') + 1), nullptr, 16);
  CHECK((ignored >> (SIGPIPE - 1) & 1) == 0);
}

TEST_CASE("standard input is empty") {
  const TestFolder scratch;
  CHECK(run_well(quick_request(scratch.path, {"wc", "-c"})).out == "0\n");
}

TEST_CASE("requests that make no sense are refused before anything starts") {
  const TestFolder scratch;
  auto refused = [](const SandboxRequest& request) {
    const auto report = run_sandboxed(request);
    return !report && report.error().code == ErrorCode::wrong_input;
  };
  CHECK(refused(quick_request(scratch.path, {})));
  CHECK(refused(quick_request("relative", {"true"})));
  CHECK(refused(quick_request(scratch.path / "absent", {"true"})));
  auto request = quick_request(scratch.path, {"true"});
  request.readable = {scratch.path / "absent"};
  CHECK(refused(request));
}

TEST_CASE("without bubblewrap nothing runs and the message says what to do") {
  const TestFolder scratch;
  const WithVariable path("PATH", "/nowhere");
  const auto report = run_sandboxed(
      quick_request(scratch.path, {"touch", scratch.path / "ran"}));
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().code == ErrorCode::missing);
  CHECK(report.error().message.find("bubblewrap") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(scratch.path / "ran"));
  for (const auto& layer : probe_protections()) {
    CHECK_FALSE(layer.on);
    CHECK(layer.remark.find("bubblewrap") != std::string::npos);
  }
}

TEST_CASE("without the launcher the message says where it was sought") {
  const TestFolder scratch;
  const WithVariable launcher("WEFT_SANDBOX", "/nowhere/weft-sandbox");
  const auto report = run_sandboxed(quick_request(scratch.path, {"true"}));
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().code == ErrorCode::missing);
  CHECK(report.error().message.find("/nowhere/weft-sandbox") !=
        std::string::npos);
}

TEST_CASE("the prefix passes input, output and exit code through") {
  const TestFolder scratch;
  const auto prefix = sandbox_prefix(quick_request(scratch.path, {}));
  const auto out = output_of("echo question | " + quoted(prefix) +
                             "sh -c 'cat; pwd; exit 5'; echo \"code $?\"");
  CHECK(out == "question\n" + scratch.path.string() + "\ncode 5\n");
}

TEST_CASE("the prefix gives no descriptor but the three") {
  const TestFolder scratch;
  const auto prefix = sandbox_prefix(quick_request(scratch.path, {}));
  const auto out =
      output_of("exec 7</etc/passwd 9</etc/hosts; " + quoted(prefix) +
                "sh -c 'for n in 3 4 5 6 7 8 9; do "
                "[ -e /proc/$$/fd/$n ] && echo $n; done'");
  CHECK(out == "");
}

TEST_CASE(
    "with a GPU, CUDA can listen on a name of its own, and none connect") {
  const TestFolder scratch;
  auto request = quick_request(
      scratch.path,
      {"/usr/bin/python3", "-c",
       "import errno, resource, socket\n"
       "def refused(call, *words):\n"
       "    try:\n"
       "        call(*words)\n"
       "    except OSError as error:\n"
       "        return error.errno == errno.EPERM\n"
       "own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
       "own.bind('\\0cuda-like'); own.listen()\n"
       "print(refused(socket.socket(socket.AF_UNIX).connect, '/x'),\n"
       "      refused(own.accept), refused(socket.socket),\n"
       "      resource.getrlimit(resource.RLIMIT_DATA)[0] < 0)\n"});
  request.gpu = true;
  const auto report = run_well(request);
  CHECK_MESSAGE(report.out == "True True True True\n", report.err);
}

TEST_CASE("a C++ file with OpenMP is compiled and runs") {
  const TestFolder scratch;
  write_file(scratch.path / "a.cpp",
             "#include <stdio.h>\nint main() { int n = 0;\n"
             "#pragma omp parallel num_threads(3) reduction(+ : n)\n"
             "n += 1; printf(\"%d\", n); }\n");
  const auto report = run_well(quick_request(
      scratch.path, {"sh", "-c", "g++ -fopenmp a.cpp -o a && ./a"}));
  CHECK(report.err == "");
  CHECK(report.out == "3");
}

TEST_CASE("torch works when its environment is readable") {
  const char* set = std::getenv("WEFT_PYTHON");
  const std::string python = set ? set : "python3";
  const auto folders =
      output_of(python +
                " -c 'import sys, torch; print(sys.executable, sys.prefix, "
                "sys.base_prefix, sep=\"\\n\")' 2>/dev/null");
  if (folders.empty()) {
    MESSAGE("skipped: " << python << " has no torch");
    return;
  }
  std::istringstream lines(folders);
  std::string executable, prefix, base;
  std::getline(lines, executable);
  std::getline(lines, prefix);
  std::getline(lines, base);
  const TestFolder scratch;
  auto request = quick_request(
      scratch.path,
      {executable, "-c",
       "import torch; a = torch.ones(300, 300); "
       "print(int((a @ a).sum()), (torch.ones(4) + 1).tolist())"});
  request.limits.memory_bytes = std::int64_t{4} << 30;
  for (const auto& path : {prefix, base}) {
    if (!path.starts_with("/usr")) request.readable.push_back(path);
  }
  const auto report = run_well(request);
  CHECK_MESSAGE(report.out == "27000000 [2.0, 2.0, 2.0, 2.0]\n", report.err);
}

TEST_CASE("every protection is on, found by trying") {
  const auto layers = probe_protections();
  CHECK(layers.size() == 8);
  for (const auto& layer : layers) {
    CHECK_MESSAGE(layer.on, layer.name << ": " << layer.remark);
  }
}

TEST_CASE("an ordinary user has the same protections as root") {
  if (geteuid() != 0) return;  // then every other test here is about that
  const TestFolder scratch("/tmp"), programs("/tmp");
  std::filesystem::permissions(programs.path, std::filesystem::perms(0755));
  const auto launcher = find_sandbox_launcher();
  REQUIRE(launcher.has_value());
  std::filesystem::copy(*launcher, programs.path / "weft-sandbox");
  REQUIRE(chown(scratch.path.c_str(), 12345, 12345) == 0);
  auto prefix = sandbox_prefix(quick_request(scratch.path, {}));
  prefix[0] = programs.path / "weft-sandbox";
  prefix.insert(prefix.begin(), {"setpriv", "--reuid", "12345", "--regid",
                                 "12345", "--clear-groups"});
  const auto out = output_of(quoted(prefix) + "/.weft-sandbox --self-test");
  CHECK(std::ranges::count(out, '\n') == 7);
  CHECK_MESSAGE(out.find("\toff\t") == std::string::npos, out);
}

TEST_CASE(
    "where namespaces are forbidden nothing runs and the reason is told") {
  if (geteuid() != 0) return;  // only root can take the right away
  const TestFolder scratch;
  const auto prefix = sandbox_prefix(quick_request(scratch.path, {}));
  const auto out =
      output_of("setpriv --bounding-set=-sys_admin " + quoted(prefix) +
                "touch ran 2>&1; "
                "echo \"code $?\"");
  CHECK(out.find("sandbox could not be built") != std::string::npos);
  CHECK(out.find("namespace") != std::string::npos);
  CHECK(out.ends_with("code 125\n"));
  CHECK_FALSE(std::filesystem::exists(scratch.path / "ran"));
}
