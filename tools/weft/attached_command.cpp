#include "tools/weft/attached_command.hpp"

#include "runtime/store/scratch_sweep.hpp"
#include "tools/weft/attached_process.hpp"
#include "tools/weft/run_in_process.hpp"

namespace weft {

int attached_command(const AttachedFlags& flags) {
  std::error_code ignored;
  Attached attached;
  attached.words = flags.words;
  attached.niceness = flags.niceness;
  attached.words.insert(
      attached.words.begin(),
      std::filesystem::read_symlink("/proc/self/exe", ignored).string());
  if (flags.remove) {
    attached.removed = std::filesystem::absolute(*flags.remove, ignored);
  }
  const auto code = run_attached(attached);
  if (!code) return report_error({}, code.error());
  // A command that had to be killed could not remove its own.
  sweep_scratch();
  return *code;
}

}  // namespace weft
