// What a language model is asked, and what it answered, apart from how a
// provider spells either.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/llm.hpp"

namespace weft {

struct PromptText {
  std::string role;  ///< "system", "user" or "assistant"
  std::string text;
  bool cache_boundary = false;  ///< all up to here is the same in other calls
  bool varies = false;          ///< LlmPart::varies
};

struct Prompt {
  std::vector<PromptText> texts;
  int samples = 1;
  std::int64_t max_tokens = 0;  ///< of one sample; 0: the provider's own
  double temperature = -1;      ///< below 0: not sent
  std::string effort;           ///< empty: not sent
};

/// One sample.
struct AnswerText {
  std::string text;
  /// "stop", "length", "refusal", or what the provider says else; empty: it
  /// has not come yet.
  std::string finish_reason;
};

struct LlmAnswer {
  Failure failure;
  /// Below 0: nobody said. Else a retry sooner than that is useless.
  std::int64_t retry_after_ms = -1;
  std::vector<AnswerText> texts;
  LlmUsage usage;
  /// What the provider itself says the call cost. Below 0: it does not.
  std::int64_t reported_micro_usd = -1;
  std::string model;
  std::string request_id;
  LlmHeaderLimits limits;
  int http_status = 0;
  bool billed_maybe = false;
  std::int64_t latency_ms = 0;
  std::int64_t first_token_ms = 0;
};

}  // namespace weft
