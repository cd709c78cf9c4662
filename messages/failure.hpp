// Why an effect gave no result, as it travels in a reply.
#pragma once

#include <msgpack.hpp>
#include <string>

namespace weft {

/// `code` empty means success. Codes: "wrong_input" (the user's to mend),
/// "missing" (the machine lacks something), "failed" (may be tried again),
/// "expired" (no answer within the lease), "refused" (the queue was full).
struct Failure {
  std::string code;
  std::string message;
  MSGPACK_DEFINE_MAP(code, message)

  explicit operator bool() const { return !code.empty(); }
  bool operator==(const Failure&) const = default;
};

}  // namespace weft
