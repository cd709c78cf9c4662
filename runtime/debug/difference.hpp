// Where two runs part: the first thing that a role decided otherwise. No two
// runs are alike in their order and their times, so that messages are held
// against each other by who says what to whom, and for the how-manieth time;
// what was measured is not compared in a decision. It is what explains it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "messages/envelope.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

/// A field of two messages that differs. What one of them has not is null.
struct FieldDifference {
  std::string path;  ///< "verdict.correct"
  nlohmann::json left;
  nlohmann::json right;
};

/// The same message in both runs, as far as there is one.
struct Pair {
  std::optional<Envelope> left;
  std::optional<Envelope> right;
  std::vector<FieldDifference> fields;  ///< at most kFieldsMax
};
inline constexpr std::size_t kFieldsMax = 24;
inline constexpr std::size_t kInputsMax = 8;
inline constexpr std::size_t kChainMax = 64;

struct Difference {
  std::uint64_t left_events = 0;
  std::uint64_t right_events = 0;
  std::uint64_t alike = 0;      ///< decisions that are the same
  std::uint64_t differing = 0;  ///< that are not, or have no counterpart
  std::optional<Pair> first;    ///< none: the roles decided alike
  /// What was said in the other run at that point, where nothing was said that
  /// could be held against it.
  std::vector<Envelope> instead;
  /// What the role had been told otherwise before it decided, the last first.
  std::vector<Pair> inputs;
  std::vector<Envelope> left_causes;  ///< of `first`, back to the beginning
  std::vector<Envelope> right_causes;
};

/// damaged when a journal cannot be read, wrong_input when one is too large.
Result<Difference> difference(const Journal& left, const Journal& right);

/// All leaves in which they differ, at most `most`.
std::vector<FieldDifference> fields_between(const nlohmann::json& left,
                                            const nlohmann::json& right,
                                            std::size_t most);

}  // namespace weft
