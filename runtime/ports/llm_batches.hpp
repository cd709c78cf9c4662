// Calls that go through providers' batch APIs. Calls that come within a moment
// of each other become one batch per provider; each batch is looked at until it
// has ended. One thread; calls of its members come from any.
#pragma once

#include <chrono>
#include <condition_variable>
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
  /// Told of a batch that a provider took, and of the calls in it: to be
  /// written down before the process ends.
  using OnStarted = std::function<void(const std::vector<std::string>& calls,
                                       const std::string& batch)>;

  explicit LlmBatches(OnStarted on_started);
  /// Calls under way stay without an answer; follow() finds them again.
  ~LlmBatches();

  void add(const LlmEndpoint& endpoint, BatchCall call, OnAnswer on_answer);

  /// A call of a batch that an earlier process started.
  void follow(const LlmEndpoint& endpoint, const std::string& batch,
              const std::string& call, OnAnswer on_answer);

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
    Clock::time_point since;
    Clock::time_point next_look;
    std::string trouble;  ///< why the last look failed; empty: it did not
  };

  void loop(std::stop_token stop);
  Clock::time_point next_time() const;
  void start(New batch, std::stop_token stop);
  void look(const std::string& id, std::stop_token stop);
  void put_off(const std::string& id, const std::string& trouble);
  void end(const std::string& id, const BatchState& state,
           const std::map<std::string, BatchResult>& results,
           const std::string& key);

  OnStarted on_started_;
  HttpClient http_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::string, New> new_;        ///< by provider
  std::map<std::string, Batch> batches_;  ///< by the provider's id
  bool is_starting_ = false;         ///< a batch that is in neither, on its way
  std::set<std::string> withdrawn_;  ///< calls cancelled meanwhile
  std::jthread thread_;              ///< the last: it uses all others
};

}  // namespace weft
