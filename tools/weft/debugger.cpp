#include "tools/weft/debugger.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "messages/shown_text.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kBreaksMax = 100;
constexpr std::size_t kCausesMax = 1'000;
constexpr std::size_t kConsequencesMax = 1'000;

std::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::wrong_input, std::move(message));
}

Result<std::uint64_t> number_of(const std::string& word) {
  std::uint64_t number = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stop != end) {
    return wrong("'" + word + "' is no number of an event");
  }
  return number;
}

/// The number after the command, or `otherwise`.
Result<std::uint64_t> number_in(const std::vector<std::string>& words,
                                std::uint64_t otherwise) {
  if (words.size() < 2) return otherwise;
  return number_of(words[1]);
}

std::string pretty(const json& value) { return json_text(value, 2); }

/// One line an event, and all of them for tools.
Debugger::Answer list(const std::vector<Envelope>& events) {
  Debugger::Answer answer{.data = json::array()};
  for (const Envelope& event : events) {
    if (!answer.text.empty()) answer.text += "\n";
    answer.text += format_envelope(event);
    answer.data.push_back(envelope_fields(event));
  }
  return answer;
}

}  // namespace

struct Debugger::Command {
  std::string name, brief, parameters, help;
  std::size_t words_min = 1, words_max = 1;
  Result<Answer> (Debugger::*run)(const Words&);
};

const std::vector<Debugger::Command>& Debugger::commands() {
  static const std::vector<Command> table = {
      {"next", "n", "[N]", "go N events on (1)", 1, 2, &Debugger::next},
      {"back", "b", "[N]", "go N events back (1)", 1, 2, &Debugger::back},
      {"to", "t", "SEQ", "go to an event", 2, 2, &Debugger::to},
      {"continue", "c", "", "go on to the next break, or to the end", 1, 1,
       &Debugger::go_on},
      {"break", "br", "role|type|subgraph NAME",
       "stop where a role speaks or is spoken to ('agent': any agent), at a "
       "message's type, or at what concerns a subgraph; alone: list them",
       1, 3, &Debugger::set_break},
      {"clear", "", "", "forget all breaks", 1, 1, &Debugger::clear_breaks},
      {"print", "p", "[SEQ]", "the event, whole", 1, 2, &Debugger::print},
      {"state", "s", "ROLE", "what the role knows here", 2, 2,
       &Debugger::state},
      {"roles", "r", "", "the roles that there are here", 1, 1,
       &Debugger::roles},
      {"open", "o", "", "requests that wait for a reply here", 1, 1,
       &Debugger::open},
      {"why", "w", "[SEQ]", "what led to the event, back to the first", 1, 2,
       &Debugger::why},
      {"said", "", "[SEQ]", "what was said because of the event", 1, 2,
       &Debugger::said},
      {"help", "h", "", "this", 1, 1, &Debugger::help},
      {"quit", "q", "", "end", 1, 1, &Debugger::quit},
  };
  return table;
}

bool Debugger::Break::stops(const Envelope& envelope) const {
  if (kind == "type") return envelope.type == name;
  if (kind == "subgraph") return concerns(envelope, name);
  return envelope.src == name || envelope.dst == name ||
         kind_of(envelope.src) == name || kind_of(envelope.dst) == name;
}

Result<Debugger::Answer> Debugger::obey(std::string_view line) {
  std::istringstream in{std::string(line)};
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  if (words.empty()) return Answer{};
  const auto command =
      std::ranges::find_if(commands(), [&](const Command& command) {
        return words[0] == command.name || words[0] == command.brief;
      });
  if (command == commands().end()) {
    return wrong("'" + words[0] + "' is no command: 'help' lists them");
  }
  if (words.size() < command->words_min || words.size() > command->words_max) {
    return wrong("it is: " + command->name + " " + command->parameters);
  }
  return (this->*command->run)(words);
}

Result<Debugger::Answer> Debugger::move_to(std::uint64_t seq,
                                           const std::string& why) {
  const auto event = journal_reader_.event(seq);
  if (!event) return std::unexpected(event.error());
  seq_ = seq;
  const std::string line = format_envelope(*event);
  return Answer{.text = why.empty() ? line : why + "\n" + line,
                .data = envelope_fields(*event)};
}

Result<Debugger::Answer> Debugger::next(const Words& words) {
  const auto steps = number_in(words, 1);
  if (!steps) return std::unexpected(steps.error());
  const std::uint64_t left = journal_reader_.last() - seq_;
  if (left == 0) return wrong("this is the last event");
  return move_to(seq_ + std::min(*steps, left));
}

Result<Debugger::Answer> Debugger::back(const Words& words) {
  const auto steps = number_in(words, 1);
  if (!steps) return std::unexpected(steps.error());
  if (seq_ <= 1) return wrong("this is the first event");
  return move_to(seq_ - std::min(*steps, seq_ - 1));
}

Result<Debugger::Answer> Debugger::to(const Words& words) {
  const auto seq = number_of(words[1]);
  if (!seq) return std::unexpected(seq.error());
  return move_to(*seq);
}

Result<Debugger::Answer> Debugger::go_on(const Words&) {
  const std::uint64_t last = journal_reader_.last();
  if (seq_ == last) return wrong("this is the last event");
  const Break* hit = nullptr;
  const auto found =
      journal_reader_.find_after(seq_, [&](const Envelope& envelope) {
        const auto stop = std::ranges::find_if(
            breaks_, [&](const Break& item) { return item.stops(envelope); });
        if (stop != breaks_.end()) hit = &*stop;
        return stop != breaks_.end();
      });
  if (!found) return std::unexpected(found.error());
  if (*found == 0) return move_to(last, "no break till the end");
  return move_to(*found, "break at " + hit->kind + " " + hit->name);
}

Result<Debugger::Answer> Debugger::set_break(const Words& words) {
  if (words.size() == 2) return wrong("it is: break role|type|subgraph NAME");
  if (words.size() == 3) {
    const Break item{words[1], words[2]};
    if (item.kind != "role" && item.kind != "type" && item.kind != "subgraph") {
      return wrong("it is: break role|type|subgraph NAME");
    }
    if (breaks_.size() >= kBreaksMax) {
      return wrong("there are " + std::to_string(kBreaksMax) +
                   " breaks: 'clear' forgets them");
    }
    const auto somewhere = journal_reader_.find_after(
        0, [&](const Envelope& envelope) { return item.stops(envelope); });
    if (!somewhere) return std::unexpected(somewhere.error());
    if (*somewhere == 0) {
      return wrong("no event of the run has the " + item.kind + " '" +
                   item.name + "'");
    }
    breaks_.push_back(item);
  }
  Answer answer{.data = json::array()};
  for (const Break& entry : breaks_) {
    if (!answer.text.empty()) answer.text += "\n";
    answer.text += "break at " + entry.kind + " " + entry.name;
    answer.data.push_back({{"kind", entry.kind}, {"name", entry.name}});
  }
  if (breaks_.empty()) answer.text = "no breaks";
  return answer;
}

Result<Debugger::Answer> Debugger::clear_breaks(const Words&) {
  breaks_.clear();
  return Answer{.text = "no breaks", .data = json::array()};
}

Result<Debugger::Answer> Debugger::print(const Words& words) {
  const auto seq = number_in(words, seq_);
  if (!seq) return std::unexpected(seq.error());
  const auto event = journal_reader_.event(*seq);
  if (!event) return std::unexpected(event.error());
  Answer answer{.data = envelope_fields(*event)};
  answer.text = format_envelope(*event, 0) + "\n" + pretty(answer.data["body"]);
  return answer;
}

Result<Debugger::Answer> Debugger::state(const Words& words) {
  auto state = journal_reader_.state(words[1], seq_);
  if (!state) return std::unexpected(state.error());
  return Answer{.text = pretty((*state)["state"]), .data = std::move(*state)};
}

Result<Debugger::Answer> Debugger::roles(const Words&) {
  const auto now = journal_reader_.moment(seq_);
  if (!now) return std::unexpected(now.error());
  Answer answer{.data = now->roles};
  for (const Address& role : now->roles) {
    answer.text += (answer.text.empty() ? "" : "\n") + terminal_line(role);
  }
  return answer;
}

Result<Debugger::Answer> Debugger::open(const Words&) {
  const auto now = journal_reader_.moment(seq_);
  if (!now) return std::unexpected(now.error());
  Answer answer = list(now->unanswered);
  if (now->unanswered.empty()) answer.text = "no request waits for a reply";
  return answer;
}

Result<Debugger::Answer> Debugger::why(const Words& words) {
  const auto seq = number_in(words, seq_);
  if (!seq) return std::unexpected(seq.error());
  const auto chain = journal_reader_.causes(*seq, kCausesMax);
  if (!chain) return std::unexpected(chain.error());
  return list(*chain);
}

Result<Debugger::Answer> Debugger::said(const Words& words) {
  const auto seq = number_in(words, seq_);
  if (!seq) return std::unexpected(seq.error());
  const auto found = journal_reader_.consequences(*seq, kConsequencesMax);
  if (!found) return std::unexpected(found.error());
  Answer answer = list(*found);
  if (found->empty()) answer.text = "nothing came of it";
  return answer;
}

Result<Debugger::Answer> Debugger::help(const Words&) {
  Answer answer{.data = json::array()};
  for (const Command& command : commands()) {
    std::string usage = command.name;
    if (!command.brief.empty()) usage += ", " + command.brief;
    if (!command.parameters.empty()) usage += " " + command.parameters;
    if (!answer.text.empty()) answer.text += "\n";
    answer.text += "  " + usage + ": " + command.help;
    answer.data.push_back({{"command", command.name}, {"help", command.help}});
  }
  return answer;
}

Result<Debugger::Answer> Debugger::quit(const Words&) {
  return Answer{.ends = true};
}

}  // namespace weft
