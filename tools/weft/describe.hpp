// `weft run --describe`: a problem file from plain words. A language model
// writes the reference and its inputs, twice; the person sees the first, and
// the two must agree on all values before anything is spent on kernels. Each
// try is a run of its own, with a journal, in OUT/describe-N.
#pragma once

#include <expected>
#include <filesystem>
#include <string>
#include <vector>

#include "messages/run.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/ports/production.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/prompt_files.hpp"

namespace weft {

struct DescribeSite {
  const CommonFlags& common;
  const Installation& installation;
  const Machine& machine;
  const LlmAccess& llm;
  const std::vector<PromptFile>& prompts;
};

/// The problem file, OUT/described.py. Takes what was spent from the budgets of
/// `flags`, and sets its folder. An exit code: it has been said why.
std::expected<std::filesystem::path, int> write_problem(
    const DescribeSite& site, RunFlags& flags);

}  // namespace weft
