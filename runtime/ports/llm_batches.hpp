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
  /// What is written down of calls, durably when it returns, on the batches'
  /// thread. False: it could not be.
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

  /// What is waited for, for people, once each batch was waited for as long as
  /// its endpoint says; empty: something may still come soon.
  std::string waits_for() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Answers = std::map<std::string, OnAnswer>;  ///< by BatchCall::id
  struct New {
    LlmEndpoint endpoint;
    std::vector<BatchCall> calls;
    Answers answers;
    Clock::time_point changed;
  };
  struct Batch {
    LlmEndpoint endpoint;
    Answers answers;
    std::int64_t began_s = 0;  ///< since the epoch
    Clock::time_point since;   ///< in this process
    Clock::time_point next_look;
    bool is_noted = true;
    bool was_looked_at = false;
    std::string trouble;  ///< why the last look failed; empty: it did not
  };

  enum class Sent { no, perhaps, yes };
  struct Start {
    Sent sent = Sent::no;  ///< the request that makes the batch
    std::string batch{};   ///< its id; empty: there is none
    LlmAnswer failure{};   ///< why not
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
  bool is_busy_ = false;                  ///< with a batch that is in neither
  std::set<std::string> withdrawn_;       ///< calls cancelled meanwhile
  std::jthread thread_;                   ///< the last: it uses all others
};

}  // namespace weft
