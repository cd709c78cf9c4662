#include "runtime/machine/installation.hpp"

#include "runtime/machine/toolchain.hpp"
#include "tests/runtime/environment_fixture.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

void write_program(const fs::path& file, const std::string& script) {
  fs::create_directories(file.parent_path());
  store(file, "#!/bin/sh\n" + script + "\n");
  fs::permissions(file, fs::perms(0755));
}

/// Something that answers weft's question as a Python with that torch would.
void write_python(const fs::path& file, const std::string& torch = "2.9.0",
                  const std::string& triton = "") {
  write_program(file, R"(read nothing
echo '{"version": "3.11.2", "torch": ")" +
                          torch + R"(", "triton": ")" + triton +
                          R"(", "roots": ["/usr", "/nonexistent"]}')");
}

/// A checkout with its own environment, a Python on the PATH, one that is
/// named by WEFT_PYTHON and one by a flag.
struct World {
  World() {
    fs::create_directories(folder / "home/python/weft");
    store(folder / "home/python/weft/__init__.py", "");
    write_python(folder / "home/.venv/bin/python");
    write_python(folder / "path/python3");
    write_python(folder / "named");
    write_python(folder / "flagged");
  }
  Directory folder;
  Variable home{"WEFT_HOME", folder / "home"};
  Variable python{"WEFT_PYTHON", folder / "named"};
  Variable path{"PATH", (folder / "path").string() + ":/usr/bin:/bin"};
};

std::string from(const std::optional<std::string>& flag = {}) {
  return value(find_installation(flag)).python_from;
}

TEST_CASE("Python is looked for in the order that is promised") {
  World world;
  CHECK(from(world.folder / "flagged") == "--python");
  CHECK(from() == "WEFT_PYTHON");
  const Variable none("WEFT_PYTHON", "");
  CHECK(from() == "weft's own environment");
  fs::remove_all(world.folder / "home/.venv");
  CHECK(from() == "python3 on the PATH");
  const Variable empty("PATH", world.folder / "home");
  CHECK(says(find_installation({}), "no Python: install python3"));
}

TEST_CASE("a Python by way of another folder has a path without it") {
  World world;
  fs::create_directories(world.folder / "other/deep");
  CHECK(value(find_installation(world.folder / "other/../flagged")).python ==
        world.folder / "flagged");
  // Where ".." is that of a link's target, the path stays.
  fs::create_directory_symlink(world.folder / "other/deep",
                               world.folder / "link");
  fs::copy(world.folder / "flagged", world.folder / "other/flagged");
  const fs::path through = world.folder / "link/../flagged";
  CHECK(value(find_installation(through)).python == through);
}

TEST_CASE("a Python is asked what it has") {
  World world;
  const Installation found = value(find_installation({}));
  CHECK(found.python == world.folder / "named");
  CHECK(found.python_version == "3.11.2");
  CHECK(found.torch_version == "2.9.0");
  CHECK(found.python_roots == std::vector<fs::path>{"/usr"});
  CHECK(found.worker_path == world.folder / "home/python");
  CHECK(check_torch(found).has_value());
}

TEST_CASE(
    "a Python that is named but not there is missing, with who named it") {
  World world;
  const auto found = find_installation("/nonexistent/python");
  REQUIRE(!found);
  CHECK(found.error().code == ErrorCode::missing);
  CHECK(says(found, "--python names '/nonexistent/python'"));
  const Variable gone("WEFT_PYTHON", "/nonexistent/other");
  CHECK(says(find_installation({}), "WEFT_PYTHON names '/nonexistent/other'"));
}

TEST_CASE("a Python that does not answer as one is named") {
  World world;
  write_program(world.folder / "named", "echo hello");
  CHECK(says(find_installation({}), "does not work as a Python 3"));
}

TEST_CASE("a Python without torch, or with an old one, is missing it") {
  World world;
  write_python(world.folder / "named", "");
  CHECK(says(check_torch(value(find_installation({}))), "tools/setup"));
  write_python(world.folder / "named", "2.5.1+cpu");
  CHECK(says(check_torch(value(find_installation({}))),
             "has PyTorch 2.5.1+cpu; weft needs 2.6 or newer"));
  write_python(world.folder / "named", "2.13.0+cpu");
  CHECK(check_torch(value(find_installation({}))).has_value());
}

TEST_CASE("a Python without Triton is told what needs it") {
  World world;
  CHECK(says(check_triton(value(find_installation({}))), "--target triton"));
  write_python(world.folder / "named", "2.9.0", "3.6.0");
  const Installation found = value(find_installation({}));
  CHECK(check_triton(found).has_value());
  CHECK(found.triton_version == "3.6.0");
}

TEST_CASE("a compiler is named by CXX, else it is g++ on the PATH") {
  World world;
  const Variable named("CXX", "/nonexistent/c++");
  CHECK(compiler_command() == "/nonexistent/c++");
  CHECK(says(check_compiler(), "no C++ compiler '/nonexistent/c++'"));
  write_python(world.folder / "elsewhere", "");  // any program
  const Variable hidden("CXX", world.folder / "elsewhere");
  CHECK(says(check_compiler(), "where the sandbox does not show it"));
  const Variable unnamed("CXX", "");
  CHECK(compiler_command() == "g++");
  const Variable empty("PATH", world.folder / "home");
  CHECK(says(check_compiler(), "install g++"));
}

TEST_CASE("a machine is described with numbers that can be") {
  const Machine machine = describe_machine();
  CHECK(!machine.name.empty());
  CHECK(machine.cores >= 1);
  CHECK(machine.vector_bytes >= 16);
  CHECK(machine.l1_bytes > 0);
  CHECK(machine.l2_bytes >= machine.l1_bytes);
}

TEST_CASE("another version of a compiler is another Python") {
  Installation before;
  before.torch_version = "2.13.0";
  before.nvrtc = "libnvrtc.so.13 13.0";
  Installation after = before;
  CHECK(python_identity(after) == python_identity(before));
  after.nvrtc = "libnvrtc.so.13 13.1";
  CHECK(python_identity(after) != python_identity(before));
}

TEST_CASE(
    "level 3 caches are counted once for the processors that share them") {
  const Directory folder;
  const auto list = [&](const char* cpu, const char* shared, const char* size) {
    const fs::path cache = folder / cpu / "cache/index3";
    fs::create_directories(cache);
    store(cache / "level", "3\n");
    store(cache / "shared_cpu_list", std::string(shared) + "\n");
    store(cache / "size", std::string(size) + "\n");
  };
  CHECK(level3_bytes(folder / "none") == 0);
  list("cpu0", "0-1", "32768K");
  list("cpu1", "0-1", "32768K");
  CHECK(level3_bytes(folder / "") == 32 << 20);
  list("cpu2", "2-3", "16M");
  list("cpu3", "3", "much");
  CHECK(level3_bytes(folder / "") == 48 << 20);
}

}  // namespace
}  // namespace weft
