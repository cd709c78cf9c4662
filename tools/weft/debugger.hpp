// `weft replay RUN --step`: goes through a run's events one at a time, forward
// and back, on commands of one line each.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/debug/journal_reader.hpp"

namespace weft {

class Debugger {
 public:
  /// `past` outlives it.
  explicit Debugger(JournalReader& journal_reader)
      : journal_reader_(journal_reader) {}

  struct Answer {
    std::string text{};     ///< for people, without the last line's end
    nlohmann::json data{};  ///< the same for tools
    bool ends = false;      ///< the session is over
  };

  /// Does what a line says. wrong_input: it is no command, or names what the
  /// run has not; the debugger then stands where it stood.
  Result<Answer> obey(std::string_view line);

  /// The event at which it stands; 0: before the first.
  std::uint64_t seq() const { return seq_; }

 private:
  using Words = std::vector<std::string>;
  struct Command;
  struct Break {
    std::string kind;  ///< "role", "type", "subgraph"
    std::string name;
    bool stops(const Envelope& envelope) const;
  };
  static const std::vector<Command>& commands();

  Result<Answer> move_to(std::uint64_t seq, const std::string& why = "");
  Result<Answer> next(const Words& words);
  Result<Answer> back(const Words& words);
  Result<Answer> to(const Words& words);
  Result<Answer> go_on(const Words& words);
  Result<Answer> set_break(const Words& words);
  Result<Answer> clear_breaks(const Words& words);
  Result<Answer> print(const Words& words);
  Result<Answer> state(const Words& words);
  Result<Answer> roles(const Words& words);
  Result<Answer> open(const Words& words);
  Result<Answer> why(const Words& words);
  Result<Answer> said(const Words& words);
  Result<Answer> help(const Words& words);
  Result<Answer> quit(const Words& words);

  JournalReader& journal_reader_;
  std::uint64_t seq_ = 0;
  std::vector<Break> breaks_;
};

}  // namespace weft
