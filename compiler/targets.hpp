// The targets that there are, and the candidates that they make of a subgraph.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/compose/target.hpp"

namespace weft {

const std::vector<Target>& targets();

/// One candidate and its target.
struct TargetSource {
  std::string_view target;
  KernelSource kernel;
};

/// Variants of one subgraph, its own or its members', the one expected to be
/// fastest first. An error if nobody has code.
Result<std::vector<TargetSource>> generate_sources(
    const Target& target, const Subgraph& subgraph, const Machine& machine,
    const GenerateOptions& options);

/// "auto", of --target: which of them that is.
inline constexpr std::string_view kAutomaticTarget = "auto";
std::string_view automatic_target(bool has_gpu, bool has_nvrtc);

/// The names of those that have code for any size, for people: "cpu,triton".
std::string any_size_targets();

/// Null when there is none of that name.
const Target* find_target(std::string_view name);

}  // namespace weft
