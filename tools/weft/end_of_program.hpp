// When the program ends, so does all that it started.
#pragma once

#include <cstdint>

namespace weft {

/// end_descendants(), which says on standard error what could not be ended.
void end_all_started(std::int64_t grace_ms, std::int64_t wall_ms);

/// For main(), before anything is started: ends at its own end what is left.
class EndOfProgram {
 public:
  EndOfProgram();
  ~EndOfProgram();
  EndOfProgram(const EndOfProgram&) = delete;
  EndOfProgram& operator=(const EndOfProgram&) = delete;
};

}  // namespace weft
