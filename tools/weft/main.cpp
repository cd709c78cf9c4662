#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "messages/shown_text.hpp"
#include "tools/weft/command_registration.hpp"
#include "tools/weft/earlier_flags.hpp"
#include "tools/weft/end_of_program.hpp"
#include "tools/weft/help.hpp"
#include "tools/weft/version.hpp"
#include "tools/weft/wrong_usage.hpp"

namespace {

using namespace weft;

/// The exit code, 3 where what was printed did not get to where it should: a
/// table that is cut off looks like a whole one.
int end(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr,
               "weft: the output could not be written: check that its "
               "destination exists and has free space\n");
  return code == 0 ? 3 : code;
}

}  // namespace

int main(int argc, char** argv) {
  const EndOfProgram nothing_outlives_it;
  CLI::App app{"weft turns a PyTorch model into verified, fast kernels"};
  set_grouped_help(app);
  app.set_version_flag("--version", std::string("weft ") + weft_version());
  app.require_subcommand(1);
  CommonFlags common;
  int code = 2;
  add_run(app, common, code);
  add_eval(app, common, code);
  add_attached(app, code);
  add_bench(app, common, code);
  add_choices(app, common, code);
  add_tune(app, common, code);
  add_config(app, common, code);
  add_llm(app, common, code);
  add_resume(app, common, code);
  add_replay(app, common, code);
  add_show(app, common, code);
  add_explain(app, common, code);
  add_doctor(app, common, code);
  add_simulate(app, common, code);
  add_fork(app, common, code);
  add_diff(app, common, code);
  add_ui(app, common, code);
  add_export(app, common, code);
  add_nodes(app, common, code);
  add_manual(app, code);
  try {
    auto words =
        with_current_flags({argv + 1, argv + argc}, [](const auto& line) {
          std::fprintf(stderr, "weft: %s\n", line.c_str());
        });
    std::ranges::reverse(words);  // CLI11 takes the last first
    app.name(argv[0]);
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    // CLI11 has exit codes of its own; wrong usage is 2 here.
    if (error.get_exit_code() == 0) return end(app.exit(error));  // --help
    if (app.get_subcommands().empty() && app.remaining().empty() &&
        error.get_exit_code() ==
            static_cast<int>(CLI::ExitCodes::RequiredError)) {
      std::fputs(first_steps(), stderr);
      return 2;
    }
    std::fprintf(stderr, "weft: %s\n", wrong_usage(app, error).c_str());
    return 2;
  } catch (const std::filesystem::filesystem_error& error) {
    std::error_code ignored;
    const bool is_gone = std::filesystem::current_path(ignored).empty();
    std::fprintf(stderr, "weft: %s: %s%s\n", error.path1().c_str(),
                 error.code().message().c_str(),
                 is_gone ? ": the folder that weft was started in is gone: "
                           "change to another"
                         : "");
    return is_gone ? 2 : 3;
  } catch (const nlohmann::json::exception& error) {
    // A file or journal that somebody else wrote: what weft writes has no such
    // value.
    std::fprintf(stderr, "weft: a value is not what weft writes: %s\n",
                 terminal_paragraph(error.what()).c_str());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "weft: memory ran out: raise 'ulimit -v' or the memory of the "
                 "container\n");
    return 3;
  }
  return end(code);
}
