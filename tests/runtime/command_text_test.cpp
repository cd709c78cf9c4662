#include "runtime/report/command_text.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

RunStart start_of(const RunOptions& options) {
  RunStart start;
  start.problem_name = "my problem.py";
  start.options = options;
  start.options.known_kernels = "lib.db";
  return start;
}

TEST_CASE("a run's command has what differs from the defaults alone") {
  CHECK(command_text(start_of({})) ==
        "weft run 'my problem.py' --library lib.db");
  RunOptions options;
  options.mode = "eval";
  options.budget_ms = 2'500;
  options.memory_bytes = std::int64_t{3} << 29;
  options.choices = {{"cpu.fold_columns_max", 8}};
  options.llm.name = "mini";
  options.llm.group = true;
  options.llm.prompts_folder = "/p q";
  const std::string text = command_text(start_of(options));
  for (const char* words :
       {" --mode eval", " --budget-s 2.5", " --memory-gib 1.5", " --llm mini",
        " --choice cpu.fold_columns_max=8", " --llm-groups",
        " --prompts '/p q'"}) {
    CHECK_MESSAGE(text.contains(words), text);
  }
  CHECK(!text.contains("--llm-fuses"));
}

TEST_CASE("a run's command has each size that is a symbol") {
  RunOptions options;
  options.dynamic_batch = true;
  options.dynamic_more = {{2, 1}};
  const std::string text = command_text(start_of(options));
  CHECK_MESSAGE(text.contains(" --dynamic-batch --dynamic-dim 2:1 "), text);
}

}  // namespace
}  // namespace weft
