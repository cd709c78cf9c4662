// A provider's batch API: many calls in one request, answered within a day, at
// a lower price. OpenAI, and servers like it, take a file of calls, then a
// batch over it, and give a file of results; Anthropic takes and gives both at
// once. Requests are written and replies read here; LlmBatches sends them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/llm_endpoint.hpp"
#include "messages/result.hpp"
#include "runtime/llm/http.hpp"
#include "runtime/llm/prompt.hpp"

namespace weft {

struct BatchCall {
  std::string id;  ///< 64 hexadecimal digits: tells its result from others
  Prompt prompt;
};

/// The calls: a batch by itself (Anthropic), or the file of one.
HttpRequest make_batch_calls(const LlmEndpoint& endpoint,
                             const std::vector<BatchCall>& calls,
                             std::string_view key);

/// Whether the reply to make_batch_calls is a file's, which make_batch_start
/// makes a batch of.
bool has_batch_file(const LlmEndpoint& endpoint);
HttpRequest make_batch_start(const LlmEndpoint& endpoint,
                             const std::string& file, std::string_view key);

/// How far a batch is.
HttpRequest make_batch_look(const LlmEndpoint& endpoint,
                            const std::string& batch, std::string_view key);

/// Whether that can be a part of an address, and leads nowhere else.
bool is_batch_id(std::string_view text);

/// The id of a new file or batch. wrong_input: there is none that is usable.
Result<std::string> batch_id_in(std::string_view body);

struct BatchState {
  bool has_ended = false;
  std::string status;              ///< the provider's word: "in_progress"
  std::string error;               ///< why it failed as a whole; empty: not
  std::vector<std::string> paths;  ///< where its results are
};
Result<BatchState> batch_state_in(const LlmEndpoint& endpoint,
                                  const std::string& batch,
                                  std::string_view body);

/// `calls`: how many answers there are at most.
HttpRequest make_batch_results(const LlmEndpoint& endpoint,
                               const std::string& path, std::size_t calls,
                               std::string_view key);

/// The reply that a call would have had by itself.
struct BatchResult {
  int status = 0;
  std::string body;  ///< JSON
};

/// By BatchCall::id. A line that is not understood is left out.
std::map<std::string, BatchResult> batch_results_in(const LlmEndpoint& endpoint,
                                                    std::string_view body);

/// Stands for a result that an ended batch lacks.
BatchResult missing_batch_result(const BatchState& state);

}  // namespace weft
