// `weft doctor`: what this machine has, what it lacks, and whether a run works
// here.
#pragma once

#include "tools/weft/commands.hpp"

namespace weft {

struct DoctorFlags {
  bool is_brief = false;  ///< nothing is run
};

/// 0: ready, 3: not.
int doctor_command(const CommonFlags& common, const DoctorFlags& flags);

}  // namespace weft
