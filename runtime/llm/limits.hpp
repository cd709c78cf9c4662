// What a provider's headers tell of its limits, and when to come back. Absent
// headers tell nothing; they do not say "unlimited".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "messages/llm.hpp"
#include "runtime/llm/http.hpp"

namespace weft {

/// "1s", "6m0s", "12ms", "1h2m3.5s" (OpenAI), a plain number of seconds, of
/// epoch seconds or of epoch milliseconds (OpenRouter), or an RFC 3339 time
/// (Anthropic), as milliseconds from `now_ms` on, the epoch's. Nothing for what
/// is none of these.
std::optional<std::int64_t> parse_reset_ms(std::string_view text,
                                           std::int64_t now_ms);

/// `now_ms` is this machine's; where the server's own date is among the
/// headers, times are held against that.
LlmHeaderLimits limits_of(const HttpHeaders& headers, std::int64_t now_ms);

/// What `retry-after-ms`, else `retry-after` (seconds or a date) say.
std::optional<std::int64_t> retry_after_ms(const HttpHeaders& headers,
                                           std::int64_t now_ms);

/// What `x-should-retry` says.
std::optional<bool> should_retry(const HttpHeaders& headers);

}  // namespace weft
