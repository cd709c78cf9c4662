// How a language model's provider is reached, as the settings say. Of this,
// only `provider` may enter a message; the port alone looks at the rest.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "messages/llm.hpp"

namespace weft {

/// The time limit of a call in a batch: a provider may take a day.
inline constexpr std::int64_t kBatchWallMs = 26 * 3'600'000;

struct LlmEndpoint {
  LlmProvider provider;
  bool has_prices = false;  ///< the settings tell some, be they zero
  std::string base_url;     ///< no slash at its end
  std::string key_env;      ///< the environment variable that holds the key
  std::string key_file;     ///< or the file; both empty: no key is sent
  std::string ca_file;      ///< certificates to trust; empty: the system's
  /// Sends a key over http to other machines than this one.
  bool plain_http = false;
  /// What chat completions call the limit of a reply; empty: by the host.
  std::string max_tokens_field;
  std::map<std::string, std::string> headers;  ///< sent with every call
  std::int64_t connect_ms = 10'000;
  std::int64_t idle_ms = 120'000;  ///< with no byte of the reply
  std::int64_t reply_bytes_max = std::int64_t{50} << 20;
  bool batch = false;  ///< calls go through the provider's batch API
  /// How long a run waits for a batch before it is suspended, and between two
  /// looks at the batch.
  std::int64_t batch_wait_s = 60;
  std::int64_t batch_poll_ms = 10'000;
};

}  // namespace weft
