// Why an effect gave no result, as it travels in a reply.
#pragma once

#include <cstdint>
#include <string>

#include "messages/fields.hpp"
#include "messages/result.hpp"

namespace weft {

/// `code` empty means success. Codes: "wrong_input" (the user's to mend),
/// "missing" (the machine lacks something), "failed" (may be tried again),
/// "expired" (no answer within the lease), "refused" (the queue was full),
/// "overloaded" (whoever was asked has too much to do just now: may be tried
/// again, not sooner than it says), "cancelled" (the asker did not want it any
/// more), "node_lost" (the node where it happened is gone), "disk_full" (the
/// disk where it happened was full; the work may have filled it itself).
struct Failure {
  std::string code;
  std::string message;
  std::int64_t retry_after_ms = 0;  ///< who failed said so; 0: it did not
  WEFT_FIELDS(code, message, retry_after_ms)

  explicit operator bool() const { return !code.empty(); }
  bool operator==(const Failure&) const = default;
};

/// An error of this process, as it travels.
inline Failure to_failure(const Error& error) {
  switch (error.code) {
    case ErrorCode::wrong_input:
      return {"wrong_input", error.message};
    case ErrorCode::missing:
      return {"missing", error.message};
    case ErrorCode::damaged:
    case ErrorCode::failed:
      break;
  }
  return {"failed", error.message};
}

}  // namespace weft
