#include "runtime/ports/kernel_cache.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/store/sha256.hpp"
#include "tests/sandbox_fixture.hpp"

using namespace weft;
namespace fs = std::filesystem;

TEST_CASE("the folder of kernels is there before the first is built") {
  // A model without a kernel of ours is checked too: in a sandbox that shows
  // this folder and can't be made without it.
  const fs::path run = fs::temp_directory_path() /
                       ("weft-kernel-cache-" + std::to_string(getpid()));
  const KernelCache cache(run / "build", run / "scratch", {});
  CHECK(fs::is_directory(cache.folder()));
  fs::remove_all(run);
}

namespace {

/// A target whose build makes the file "made" of the file "asked" so.
Target target_built_by(decltype(Target::build_command) command) {
  Target target;
  target.source_file = "asked";
  target.built_file = "made";
  target.build_flags = [] { return std::vector<std::string>{}; };
  target.build_command = command;
  return target;
}

/// Asks weft's Python what it can see.
std::vector<std::string> ask_python(const BuildTools& tools) {
  return {tools.python, "-c",
          "import os, weft\n"
          "os.makedirs(os.environ['TRITON_CACHE_DIR'])\n"
          "open('made', 'w').write(open('asked').read() + '" +
              tools.arch + "')"};
}

}  // namespace

TEST_CASE("a kernel for a GPU is built by weft's Python side, in the sandbox") {
  const TestFolder run;
  const fs::path workers = run.path / "python";
  fs::create_directories(workers / "weft");
  write_file(workers / "weft/__init__.py", "");
  fs::permissions(run.path, fs::perms(0755));
  Installation installation;
  installation.python = "/usr/bin/python3";
  installation.worker_path = workers;
  Machine machine;
  machine.gpus = {{.name = "a GPU", .arch = "sm_90"}};
  KernelCache cache(run.path / "build", run.path / "scratch",
                    make_workshop(installation, machine));
  Target target = target_built_by(&ask_python);
  target.on_gpu = true;
  const auto built = cache.build(target, "for ", 60'000);
  REQUIRE_MESSAGE(built.has_value(), built.error().message);
  INFO(built->log);
  REQUIRE_FALSE(built->file.empty());
  CHECK(file_text(built->file) == "for sm_90");
}

namespace {

std::vector<std::string> copy_source(const BuildTools& tools) {
  return {tools.cxx, "asked", "made"};
}

}  // namespace

TEST_CASE("what one run has built another finds, unless others would build") {
  const TestFolder test_folder;
  fs::permissions(test_folder.path, fs::perms(0755));
  const Library library(test_folder.path / "library.db");
  const Target target = target_built_by(&copy_source);
  const auto build = [&](const std::string& run, const std::string& tool,
                         const std::string& identity) {
    Workshop workshop;
    workshop.tools.cxx = tool;
    workshop.kernel_library = &library;
    workshop.compiler_identity = identity;
    KernelCache cache(test_folder.path / run / "build",
                      test_folder.path / run / "scratch", workshop);
    const auto built = cache.build(target, "the source", 60'000);
    REQUIRE_MESSAGE(built.has_value(), built.error().message);
    return built->file.empty() ? "" : file_text(built->file);
  };
  CHECK(build("first", "/bin/cp", "cp 1") == "the source");
  CHECK(build("second", "/bin/false", "cp 1") == "the source");
  CHECK(build("third", "/bin/false", "cp 2") == "");
}

TEST_CASE("a build finds what it must know of a source in a file of its own") {
  const TestFolder test_folder;
  fs::permissions(test_folder.path, fs::perms(0755));
  Target target = target_built_by(&copy_source);
  target.source_file = "source";
  target.facts_file = "asked";
  target.facts = [](std::string_view source) -> Result<std::string> {
    if (source.empty()) return fail(ErrorCode::wrong_input, "it says nothing");
    return "of " + std::string(source);
  };
  Workshop workshop;
  workshop.tools.cxx = "/bin/cp";
  KernelCache cache(test_folder.path / "build", test_folder.path / "scratch",
                    workshop);
  const auto built = cache.build(target, "the source", 60'000);
  REQUIRE_MESSAGE(built.has_value(), built.error().message);
  CHECK(file_text(built->file) == "of the source");
  const auto refused = cache.build(target, "", 60'000);
  REQUIRE(refused.has_value());
  CHECK(refused->file.empty());
  CHECK(refused->log == "it says nothing");
}

TEST_CASE("a build whose result cannot be kept leaves no scratch") {
  const TestFolder test_folder;
  fs::permissions(test_folder.path, fs::perms(0755));
  const Target target = target_built_by(&copy_source);
  Workshop workshop;
  workshop.tools.cxx = "/bin/cp";
  write_file(test_folder.path / "build", "in the way");
  KernelCache cache(test_folder.path / "build", test_folder.path / "scratch",
                    workshop);
  CHECK_FALSE(cache.build(target, "the source", 60'000).has_value());
  CHECK(fs::is_empty(test_folder.path / "scratch"));
}

TEST_CASE("what is built for one GPU is not taken for another") {
  Target target;
  target.built_file = "kernel.json";
  target.build_flags = [] { return std::vector<std::string>{}; };
  CHECK(library_name(target, "x", "sm_90") == library_name(target, "x", ""));
  target.on_gpu = true;
  CHECK(library_name(target, "x", "sm_90") != library_name(target, "x", ""));
  CHECK(library_name(target, "x", "sm_90") !=
        library_name(target, "x", "sm_80"));
}

TEST_CASE("a build is named as the composed module looks it up") {
  const auto named = [](const char* target, const std::string& source) {
    return library_name(*find_target(target), source, "sm_90");
  };
  const auto hashed = [](const std::string& text) {
    return content_hash(text + '\0' + "sm_90").substr(0, 32) + ".json";
  };
  CHECK(named("triton", "the text") == hashed("the text"));
  // The module has a CUDA text's launches by themselves.
  const std::string answer =
      nlohmann::json{{"launches", {{{"function", "f"}}}}}.dump();
  CHECK(named("cuda", "/* launches\n" + answer + "\n*/\nthe text") ==
        hashed("the text" + std::string(1, '\0') + answer));
}

TEST_CASE("nothing is built for a target that there is not") {
  const fs::path run = fs::temp_directory_path() /
                       ("weft-kernel-target-" + std::to_string(getpid()));
  KernelCache cache(run / "build", run / "scratch", {});
  const auto built = cache.build("abacus", "int x;", 1'000);
  REQUIRE_FALSE(built.has_value());
  CHECK(built.error().code == ErrorCode::wrong_input);
  CHECK(built.error().message.contains("abacus"));
  fs::remove_all(run);
}
