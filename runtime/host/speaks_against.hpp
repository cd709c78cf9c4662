// Which replies may be the machine's fault, not the work's.
#pragma once

#include <variant>

#include "messages/vocabulary.hpp"

namespace weft {

/// Whether the reply speaks against the work. What was stopped says nothing of
/// either.
inline bool speaks_against(const Message& reply) {
  if (const auto* check = std::get_if<CheckReply>(&reply)) {
    if (!check->verdict.correct) return true;
  }
  if (const auto* time = std::get_if<TimeReply>(&reply)) {
    if (!time->rejected.empty()) return true;
  }
  return std::visit(
      [](const auto& m) {
        if constexpr (requires { m.failure.code; }) {
          return m.failure && m.failure.code != "cancelled";
        } else {
          return false;
        }
      },
      reply);
}

}  // namespace weft
