// Asks language models: a prompt in, an answer out, over HTTP. Any number of
// calls at once on one thread. No retry, no limit and no memory here: who calls
// has a lease, and decides. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/llm_endpoint.hpp"
#include "runtime/llm/http.hpp"
#include "runtime/llm/prompt.hpp"

namespace weft {

/// The answer in a reply that came whole: one of a batch's, or an error.
LlmAnswer whole_answer(const LlmEndpoint& endpoint, const std::string& key,
                       const HttpEnd& end, std::string_view body);

class LlmClient {
 public:
  using Id = HttpClient::Id;
  /// Called once, on the client's thread; must return soon.
  using OnAnswer = std::function<void(LlmAnswer)>;

  /// Nothing of the key is in the answer. The call ends within the endpoint's
  /// wall_ms. A call that cannot be made (no key) ends as one that failed; its
  /// id is 0.
  Id ask(const LlmEndpoint& endpoint, const Prompt& prompt, OnAnswer on_answer);

  /// The provider's models, by name. On failure `answer.failure` says why.
  using OnModels = std::function<void(LlmAnswer, std::vector<std::string>)>;
  Id list_models(const LlmEndpoint& endpoint, OnModels on_models);

  /// The call soon ends with the failure "cancelled".
  void cancel(Id id) { http_.cancel(id); }

 private:
  HttpClient http_;
};

}  // namespace weft
