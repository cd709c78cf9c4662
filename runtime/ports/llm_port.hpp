// port/llm: asks language models, at the head only. An answer is on disk
// before it is given: after a crash at any moment, no call that was answered is
// made again. What an earlier run was answered to the same prompt is given
// without a call.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/role.hpp"
#include "config/llm_endpoint.hpp"
#include "runtime/host/port.hpp"
#include "runtime/llm/client.hpp"
#include "runtime/machine/work_queue.hpp"
#include "runtime/ports/llm_batches.hpp"
#include "runtime/store/llm_store.hpp"

namespace weft {

/// Upper limits of a port's calls, whatever the roles allow. Below 0: no limit.
struct LlmSpendingLimit {
  std::int64_t micro_usd = -1;
  std::int64_t tokens = -1;
};

class LlmPort : public Port {
 public:
  struct Options {
    std::vector<LlmEndpoint> endpoints;
    std::filesystem::path replies;  ///< the run's own file
    std::filesystem::path cache;    ///< of all runs; empty: none
    LlmSpendingLimit limit{};
  };

  LlmPort(Blobs& blobs, Options options);
  ~LlmPort() override;

  void start(const Message& request, Reply reply) override;

  /// A call that is `cancelled` ends with that failure, and its connection;
  /// what it has cost until then may be billed.
  void begin(const Message& request, std::stop_token cancelled, Reply reply);

  std::string waits_for() const override;

 private:
  using Watch = std::optional<std::stop_callback<std::function<void()>>>;
  /// One call on its way.
  struct Call {
    LlmRequest request;
    Reply reply;
    std::stop_token cancelled;
    LlmEndpoint endpoint;
    std::string id;      ///< content hash of the request
    std::string prompt;  ///< of what it asks, whoever asks it
    /// At most, counted as spent while the call is under way.
    std::int64_t micro_usd = 0;
    std::int64_t tokens = 0;
  };

  void answer(Call call);
  void ask(Call call, const Prompt& prompt);
  /// By the provider's batch API: in `batch`, or in the next one if empty.
  void ask_in_batch(Call call, const Prompt& prompt, const std::string& batch,
                    std::int64_t began_s);
  /// Its result, once it was done on the queue's thread.
  bool in_queue(const std::function<bool()>& job);
  /// Takes an answer to the queue's thread. `watch` ends the call if the asker
  /// does not want it any more; it is made and ended on that thread alone.
  LlmClient::OnAnswer taker(Call call, std::shared_ptr<Watch> watch);
  void take(const Call& call, LlmAnswer answer);
  /// Whether the call fits in Options::limit; if so, it is counted.
  bool is_affordable(Call& call, const Prompt& prompt);
  void settle(const Call& call, const LlmReply& reply);
  /// From the run's own file, or from the cache.
  bool answer_from_disk(Call& call);
  void give_up(const Call& call);
  void give(const Call& call, StoredAnswer stored_answer);
  void refuse(const Call& call, Failure failure);
  Result<void> open_stores();
  Result<Prompt> read_prompt(const LlmRequest& request);

  Blobs& blobs_;
  Options options_;
  std::optional<LlmReplies> replies_;
  std::optional<LlmCache> cache_;
  LlmSpendingLimit spent_{0, 0};  ///< the queue's thread's alone
  std::atomic<bool> closing_ = false;
  WorkQueue queue_{1};         ///< the stores' thread
  std::atomic<int> soon_ = 0;  ///< calls that are in no batch
  LlmClient client_;           ///< ends before the queue that its answers go to
  LlmBatches batches_;         ///< likewise
};

/// What tells one prompt from another: server, model, texts, parameters.
std::string prompt_key(const LlmEndpoint& endpoint, const Prompt& prompt);

}  // namespace weft
