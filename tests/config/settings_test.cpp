#include "config/settings.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <map>

namespace weft {
namespace {

namespace fs = std::filesystem;

/// A folder of a test's own, gone with it.
struct Folder {
  fs::path path =
      fs::temp_directory_path() / ("weft-settings-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return path / name;
  }
};

std::string error_of(std::string_view toml) {
  const auto settings = parse_settings(toml, "weft.toml");
  return settings ? "none" : settings.error().message;
}

TEST_CASE("settings have dotted names, values as text, and a place") {
  const auto settings = parse_settings(
      "[run]\njobs = 4\nseeds = [\"library\", \"compiler\"]\nfast_sync = true\n"
      "memory_gib = 0.5\n\n[llm.mini]\nmodel = \"m\"\nlimits.calls_at_once = "
      "2\n",
      "weft.toml");
  REQUIRE(settings);
  CHECK(settings->at("run.jobs").shown() == "4");
  CHECK(settings->at("run.jobs").origin == "weft.toml:2");
  CHECK(settings->at("run.seeds").shown() == "library,compiler");
  CHECK(settings->at("run.seeds").kind == Setting::Kind::list);
  CHECK(settings->at("run.fast_sync").shown() == "true");
  CHECK(settings->at("run.memory_gib").shown() == "0.5");
  CHECK(settings->at("llm.mini.model").origin == "weft.toml:8");
  CHECK(settings->at("llm.mini.limits.calls_at_once").shown() == "2");
}

TEST_CASE("a malformed file is told with its line") {
  CHECK(error_of("[run]\njobs = \n").starts_with("weft.toml:2: "));
  CHECK(error_of("[run]\njobs = 1\njobs = 2\n").starts_with("weft.toml:3: "));
  CHECK(error_of("[run]\nsince = 1979-05-27\n").starts_with("weft.toml:2: "));
  CHECK(error_of("[run]\nseeds = [[1]]\n").starts_with("weft.toml:2: "));
}

TEST_CASE("the later file is stronger, setting by setting") {
  const Folder folder;
  SettingsFiles files;
  files.user = folder.write("user.toml", "[run]\njobs = 1\nseed = 1\n");
  files.folder = folder.write("weft.toml", "[run]\njobs = 2\n");
  files.named = folder.write("named.toml", "[run]\nvariants = 3\n");
  const auto settings = read_settings(files);
  REQUIRE(settings);
  CHECK(settings->at("run.jobs").shown() == "2");
  CHECK(settings->at("run.jobs").from_folder);
  CHECK(settings->at("run.random_seed").shown() == "1");
  CHECK_FALSE(settings->at("run.random_seed").from_folder);
  CHECK(settings->at("run.variants").shown() == "3");
}

TEST_CASE("files that are read anyway may lack, a named one may not") {
  const Folder folder;
  SettingsFiles files;
  files.user = folder.path / "none.toml";
  CHECK(read_settings(files)->empty());
  files.named = folder.path / "none-either.toml";
  const auto settings = read_settings(files);
  REQUIRE_FALSE(settings);
  CHECK(settings.error().code == ErrorCode::wrong_input);
  CHECK(settings.error().message.find("none-either.toml") != std::string::npos);
}

TEST_CASE("the environment is stronger than files") {
  auto settings = *parse_settings("[run]\njobs = 4\n", "weft.toml");
  const Environment environment = [](const std::string& name) {
    return name == "WEFT_RUN_JOBS" ? "8" : "";
  };
  take_environment(settings, "run.jobs", environment);
  take_environment(settings, "run.seed", environment);
  CHECK(settings.at("run.jobs").shown() == "8");
  CHECK(settings.at("run.jobs").origin == "WEFT_RUN_JOBS");
  CHECK_FALSE(settings.contains("run.seed"));
  CHECK(variable_of("llm.my-gpt.limits.calls_at_once") ==
        "WEFT_LLM_MY_GPT_LIMITS_CALLS_AT_ONCE");
}

TEST_CASE("the user's file is below XDG_CONFIG_HOME, or below HOME") {
  std::map<std::string, std::string> variables = {{"HOME", "/home/u"}};
  const Environment environment = [&](const std::string& name) {
    return variables[name];
  };
  CHECK(settings_files(environment, "").user ==
        "/home/u/.config/weft/config.toml");
  variables["XDG_CONFIG_HOME"] = "/etc/u";
  CHECK(settings_files(environment, "").user == "/etc/u/weft/config.toml");
  variables.clear();
  CHECK(settings_files(environment, "").user.empty());
}

TEST_CASE("a file that nests without end is refused") {
  std::string dots;
  for (int i = 0; i < 200'000; ++i) dots += "a.";
  CHECK(error_of(dots + "b = 1\n").contains("too many dots"));
  CHECK(error_of("[" + dots + "b]\nx = 1\n").contains("too many dots"));
  CHECK(error_of("x = { " + dots + "b = 1 }\n").contains("too many dots"));
  CHECK(error_of("x = " + std::string(200'000, '[')) != "none");
}

TEST_CASE("the deepest file that is read uses little of the stack") {
  std::string dots;
  for (int i = 0; i < 4'000; ++i) dots += "a.";
  CHECK(error_of(dots + "b = 1\n") == "none");
  CHECK(error_of("[" + dots + "b]\nx = 1\n") == "none");
}

}  // namespace
}  // namespace weft
