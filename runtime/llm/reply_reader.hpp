// A reply as each dialect spells it, turned into texts, usage and errors: from
// a stream's events, or from one JSON document where a server does not stream.
// One thread.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/llm/prompt.hpp"
#include "runtime/llm/sse.hpp"

namespace weft {

/// What a server says went wrong, in a body or within a stream.
struct ServerError {
  std::string type;  ///< "overloaded_error", "insufficient_quota", …
  std::string code;
  std::string message;
};

/// The error of a JSON body, in any of the shapes that servers use.
std::optional<ServerError> error_in(const nlohmann::json& body);

class ReplyReader {
 public:
  virtual ~ReplyReader() = default;

  /// An event of the stream. `last`: the stream ended with it, perhaps in its
  /// middle, so that it need not be whole.
  void take_event(const SseEvent& event, bool last = false);

  /// The whole body, of a server that did not stream.
  void take_whole(std::string_view body);

  /// The reply's own end has come.
  bool ended() const { return ended_; }
  /// A part of the answer has come.
  bool begun() const { return begun_; }
  const std::vector<AnswerText>& texts() const { return texts_; }
  const LlmUsage& usage() const { return usage_; }
  std::int64_t reported_micro_usd() const { return reported_micro_usd_; }
  const std::string& model() const { return model_; }
  const std::optional<ServerError>& error() const { return error_; }
  /// Why a part of the reply is not to be understood, with all of that part;
  /// empty: all is.
  const std::string& malformed() const { return malformed_; }

 protected:
  /// One event's JSON. May throw json's own exceptions at a wrong type.
  virtual void take(const nlohmann::json& data) = 0;
  virtual void take_document(const nlohmann::json& document) = 0;

  AnswerText& text_at(std::size_t index);
  void add_text(std::size_t index, std::string_view text);

  std::vector<AnswerText> texts_;
  LlmUsage usage_;
  std::int64_t reported_micro_usd_ = -1;
  std::string model_;
  std::optional<ServerError> error_;
  bool ended_ = false;
  bool begun_ = false;

 private:
  void take_json(std::string_view text, bool whole, bool last);

  std::string malformed_;
};

/// `dialect`: "openai", "anthropic", "responses".
std::unique_ptr<ReplyReader> make_reply_reader(std::string_view dialect);

/// What the tokens cost by these prices, in millionths of a dollar, rounded up.
std::int64_t cost_of(const LlmUsage& usage, const LlmPrices& prices);

}  // namespace weft
