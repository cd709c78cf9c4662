// What a run asked language models, and what they answered and cost.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "messages/vocabulary.hpp"

namespace weft {

class CallsView {
 public:
  explicit CallsView(std::size_t calls_max) : calls_max_(calls_max) {}

  void take(const Envelope& envelope, const Message& message);

  /// The call whose reply is that event: what a seed came of.
  std::optional<std::size_t> call_of_reply(std::uint64_t seq) const;

  /// Times are in microseconds since 1970.
  const nlohmann::json& calls() const { return calls_; }

  /// {calls, failed, from_cache, input_tokens, output_tokens, micro_usd, …} of
  /// all of them, those left out included.
  nlohmann::json spent() const;
  std::size_t left_out() const { return left_out_; }

 private:
  void ask(const Envelope& envelope, const LlmRequest& request);
  void answer(const Envelope& envelope, const LlmReply& reply);

  std::size_t calls_max_;
  nlohmann::json calls_ = nlohmann::json::array();
  std::map<std::uint64_t, std::size_t> asked_;     // by the request's seq
  std::map<std::uint64_t, std::size_t> answered_;  // by the reply's seq
  std::map<std::pair<std::string, std::uint64_t>, std::string> groups_;
  std::map<std::string, std::int64_t> spent_;
  std::size_t left_out_ = 0;
};

}  // namespace weft
