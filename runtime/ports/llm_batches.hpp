// Calls that go through providers' batch APIs. Calls that come within a moment
// of each other become one batch per provider; each batch is looked at until it
// has ended. One thread; calls of its members come from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "runtime/llm/batch.hpp"
#include "runtime/llm/client.hpp"

namespace weft {

class LlmBatches {
 public:
  using OnAnswer = LlmClient::OnAnswer;
  /// Called on the batches' thread. They return when the fact is durable, or
  /// with false if it cannot be kept.
  struct Notes {
    /// A provider has taken the batch.
    std::function<bool(const std::vector<std::string>& calls,
                       const std::string& batch, std::int64_t began_s)>
        started;
    /// The calls were in no batch when the process ended.
    std::function<void(const std::vector<std::string>& calls)> unsent;
  };

  explicit LlmBatches(Notes notes);
  /// Calls of a batch stay without an answer; follow() finds them again. Waits
  /// some seconds for a provider that is taking a batch.
  ~LlmBatches();

  void add(const LlmEndpoint& endpoint, BatchCall call, OnAnswer on_answer);

  /// A call of a batch that an earlier process started then.
  void follow(const LlmEndpoint& endpoint, const std::string& batch,
              std::int64_t began_s, const std::string& call,
              OnAnswer on_answer);

  /// The call ends as cancelled. A batch that has it is paid all the same.
  void cancel(const std::string& call);

  /// Names the pending batches, for people. Empty: an answer may come soon, or
  /// a batch has not had the time that its endpoint gives it.
  std::string waits_for() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Answers = std::map<std::string, OnAnswer>;  ///< by BatchCall::id
  /// Calls that wait for the next batch of their provider.
  struct New {
    LlmEndpoint endpoint;
    std::vector<BatchCall> calls;
    Answers answers;
    Clock::time_point changed;
  };
  /// A batch that the provider has.
  struct Batch {
    LlmEndpoint endpoint;
    Answers answers;
    std::int64_t began_s = 0;  ///< Unix time
    Clock::time_point since;   ///< when this process began to wait
    Clock::time_point next_look;
    bool is_noted = true;
    bool was_looked_at = false;
    std::string trouble;  ///< error of the last look
  };

  enum class Sent { no, perhaps, yes };
  /// How the creation of a batch ended: with an id, or with a failure.
  struct Start {
    Sent sent = Sent::no;
    std::string batch{};
    LlmAnswer failure{};
  };
  void loop(std::stop_token stop);
  Clock::time_point next_time() const;
  void start(New batch, std::stop_token stop);
  Start post(const New& batch, std::stop_token stop);
  void look(const std::string& id, std::stop_token stop);
  void put_off(const std::string& id, const std::string& trouble);
  void end(const std::string& id,
           const std::function<LlmAnswer(const std::string& call)>& answer);

  Notes notes_;
  HttpClient http_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::string, New> new_;        ///< by provider
  std::map<std::string, Batch> batches_;  ///< by the provider's id
  bool is_busy_ = false;                  ///< a batch is in neither map
  std::set<std::string> withdrawn_;       ///< calls cancelled meanwhile
  std::jthread thread_;                   ///< the last: it uses all others
};

}  // namespace weft
