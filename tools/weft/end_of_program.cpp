#include "tools/weft/end_of_program.hpp"

#include <cstdio>
#include <string>

#include "runtime/sandbox/descendants.hpp"

namespace weft {
namespace {

/// A sandbox that is asked to end takes some ten milliseconds.
constexpr std::int64_t kGraceMs = 1'000;
/// A kernel or a driver may hold a process for longer than anybody waits.
constexpr std::int64_t kWallMs = 10'000;

}  // namespace

void end_all_started(std::int64_t grace_ms, std::int64_t wall_ms) {
  const std::string left = end_descendants(grace_ms, wall_ms);
  if (!left.empty()) std::fprintf(stderr, "weft: %s\n", left.c_str());
}

EndOfProgram::EndOfProgram() { adopt_orphans(); }

EndOfProgram::~EndOfProgram() { end_all_started(kGraceMs, kWallMs); }

}  // namespace weft
