#include <cstdio>

#include "messages/shown_text.hpp"
#include "runtime/machine/bytecode.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/process_limits.hpp"

namespace weft {

Result<Installation> ready_installation(const CommonFlags& common,
                                        bool needs_torch) {
  if (const auto enough = check_process_limits(); !enough) {
    return std::unexpected(enough.error());
  }
  auto installation = find_installation(common.python);
  if (!installation) return installation;
  if (const auto torch = check_torch(*installation); !torch) {
    if (needs_torch) return std::unexpected(torch.error());
    return installation;
  }
  const auto say = [&common](const std::string& text) {
    if (common.quiet || common.json) return;
    std::fprintf(stderr, "weft: %s\n", terminal_paragraph(text).c_str());
  };
  if (const auto stored = keep_bytecode(*installation, say); !stored) {
    say(stored.error().message +
        "; every process takes seconds longer to begin");
  }
  return installation;
}

}  // namespace weft
