// What a function that can fail returns: a value, or an Error that a person
// can act on. Exceptions are for bugs only and never cross a module's edge.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace weft {

/// Callers do something different for each of these, and only for these.
enum class ErrorCode {
  wrong_input,  ///< the user's file, flag or request: exit code 2
  missing,      ///< the machine lacks something: exit code 3
  damaged,      ///< stored bytes are not what was written
  failed,       ///< an effect did not work; trying again may help
};

struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;  ///< what happened, to what, what to do next
};

template <class T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

}  // namespace weft
