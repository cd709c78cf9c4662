#include "tools/weft/replay_inspection.hpp"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "actors/roster.hpp"
#include "messages/shown_text.hpp"
#include "runtime/debug/journal_reader.hpp"
#include "tools/weft/debugger.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {
namespace {

using nlohmann::json;

void print_pretty(const json& data) {
  std::printf("%s\n", json_text(data, 2).c_str());
}

/// The states of one role, or of all that there are.
Result<json> states_at(JournalReader& journal_reader,
                       const ReplayFlags& flags) {
  return flags.state == "all" ? journal_reader.states(flags.at)
                              : journal_reader.state(flags.state, flags.at);
}

void print_moment(const CommonFlags& common,
                  const JournalReader::Moment& moment) {
  if (common.json) {
    json open = json::array();
    for (const Envelope& request : moment.unanswered) {
      open.push_back(envelope_fields(request));
    }
    print_line({{"event", envelope_fields(moment.event)},
                {"roles", moment.roles},
                {"unanswered", std::move(open)}});
    return;
  }
  std::printf("%s\n%zu roles:", format_envelope(moment.event).c_str(),
              moment.roles.size());
  for (const Address& role : moment.roles)
    std::printf(" %s", terminal_line(role).c_str());
  std::printf("\n%zu requests wait for a reply\n", moment.unanswered.size());
  for (const Envelope& request : moment.unanswered) {
    std::printf("  %s\n", format_envelope(request).c_str());
  }
}

}  // namespace

int step_through(const CommonFlags& common, const Journal& journal) {
  JournalReader journal_reader(journal, &make_role);
  Debugger debugger(journal_reader);
  const bool has_person = isatty(STDIN_FILENO) == 1 && !common.json;
  if (has_person) {
    std::printf("%llu events; 'help' lists the commands\n",
                static_cast<unsigned long long>(journal_reader.last()));
  }
  int code = 0;
  std::string line;
  while (true) {
    if (has_person) {
      std::printf("%llu> ", static_cast<unsigned long long>(debugger.seq()));
    }
    std::fflush(stdout);
    if (!std::getline(std::cin, line)) break;
    const auto answer = debugger.obey(line);
    if (!answer) {
      code = report_error(common, answer.error());
      continue;
    }
    if (answer->ends) break;
    if (common.json) {
      if (!answer->data.is_null()) print_line(answer->data);
    } else if (!answer->text.empty()) {
      std::printf("%s\n", terminal_listing(answer->text).c_str());
    }
  }
  return has_person ? 0 : code;
}

int show_moment(const CommonFlags& common, const Journal& journal,
                const ReplayFlags& flags) {
  JournalReader journal_reader(journal, &make_role);
  if (flags.state.empty()) {
    const auto moment = journal_reader.moment(flags.at);
    if (!moment) return report_error(common, moment.error());
    print_moment(common, *moment);
    return 0;
  }
  const auto states = states_at(journal_reader, flags);
  if (!states) return report_error(common, states.error());
  (common.json ? print_line : print_pretty)(*states);
  return 0;
}

}  // namespace weft
