#include "tools/weft/commands.hpp"
#include "tools/weft/finished_run.hpp"
#include "tools/weft/hosted_run.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/run_place.hpp"

namespace weft {

int resume_command(const CommonFlags& common, const ResumeFlags& flags) {
  const Interrupt interrupt;
  auto loaded = load_settings(common.config);
  if (!loaded) return report_error(common, loaded.error());
  const auto folder = RunDirectory::open(flags.run);
  if (!folder) return report_error(common, folder.error());
  const auto installation = ready_installation(common);
  if (!installation) return report_error(common, installation.error());
  const auto run = reopen_run(flags.run);
  if (!run) return report_error(common, run.error());
  OpenRun& open = **run;
  const auto start = read_start(open.journal);
  if (!start) return report_error(common, start.error());
  if (const auto tools = check_tools(start->options, *installation); !tools) {
    return report_error(common, tools.error());
  }
  if (const auto devices = check_devices(*start); !devices) {
    return report_error(common, devices.error());
  }
  Display display(common);
  const LlmAccess llm = llm_access(*loaded, flags.llm_cache);
  const auto past =
      flags.recorded ? Replay::Past::recorded : Replay::Past::decided_again;
  const auto end = host_rest(
      {common, flags.listen, *installation, llm, display, interrupt.token()},
      open, *start, past);
  if (!end) return report_error(common, end.error());
  if (end->kind == HostEnd::Kind::finished) {
    const auto written = write_missing_files(open.journal, open.directory);
    if (!written) return report_error(common, written.error());
  }
  return conclude(common, display, open.directory, *end);
}

}  // namespace weft
