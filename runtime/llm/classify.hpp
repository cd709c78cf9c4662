// What a call's end means for whoever made it: which failure it is, whether
// and when trying again can help, and whether it may have been paid for.
#pragma once

#include <optional>

#include "config/llm_endpoint.hpp"
#include "runtime/llm/http.hpp"
#include "runtime/llm/reply_reader.hpp"

namespace weft {

/// A server that wants to be left alone longer is not asked again
/// (OpenAI's own library keeps to the same).
inline constexpr std::int64_t kRetryAfterMsMax = 120'000;

struct Classified {
  Failure failure;
  std::int64_t retry_after_ms = -1;  ///< below 0: nobody said
  bool billed_maybe = false;
};

/// A call of which no whole answer came: by libcurl's word.
Classified classify_transport(const LlmEndpoint& endpoint, const HttpEnd& end);

/// A call that the server answered with an error: by its status, and by what
/// the body says, which goes before. Quota, billing and daily caps come as 400,
/// 403 and 429 alike. `now_ms` is the epoch's.
Classified classify_error(const LlmEndpoint& endpoint, const HttpHead& head,
                          const std::optional<ServerError>& error,
                          std::int64_t now_ms);

/// An error that came within a stream that had begun well: it may be billed.
Classified classify_stream_error(const LlmEndpoint& endpoint,
                                 const HttpHead& head, const ServerError& error,
                                 std::int64_t now_ms);

}  // namespace weft
