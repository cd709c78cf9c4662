// Answers of language models on disk. LlmReplies: those of one run, written
// before they are given, so that no answered call is paid for twice. LlmCache:
// those of all runs, so that the same run again costs nothing. One thread each.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "messages/fields.hpp"
#include "messages/llm.hpp"
#include "runtime/store/sqlite.hpp"

namespace weft {

/// A reply with its texts themselves, where the message has blobs: those are
/// durable only with the journal's next event.
struct StoredAnswer {
  LlmReply reply;
  std::vector<std::string> texts;
  WEFT_FIELDS(reply, texts)
  bool operator==(const StoredAnswer&) const = default;
};

class LlmReplies {
 public:
  /// Makes the file if it is not there.
  static Result<LlmReplies> open(const std::filesystem::path& file);

  struct Call {
    bool asked = false;  ///< by this process or one before
    std::string batch;   ///< the provider's batch that it is in; empty: none
    std::int64_t batch_began_s = 0;  ///< since the epoch
    std::optional<StoredAnswer> answer;
  };
  /// `request` and `prompt` are content hashes, of the one call and of what it
  /// asks.
  Result<Call> find(const std::string& request);

  /// Durable when it returns. Asking again changes nothing.
  Result<void> note_asked(const std::string& request,
                          const std::string& prompt);
  /// It never left: who asks again may do so.
  Result<void> forget_asked(const std::string& request);
  Result<void> keep(const std::string& request, const StoredAnswer& answer);
  /// The calls are in that batch of their provider's: all, or none.
  Result<void> note_batch(const std::vector<std::string>& requests,
                          const std::string& batch, std::int64_t began_s);

  /// How many good answers this run has had to that prompt.
  Result<int> answered(const std::string& prompt);

 private:
  explicit LlmReplies(Database database) : database_(std::move(database)) {}
  Database database_;
};

class LlmCache {
 public:
  /// What is kept at most, texts and all; the oldest goes first.
  static constexpr std::int64_t kBytesMax = std::int64_t{512} << 20;

  static Result<LlmCache> open(const std::filesystem::path& file,
                               std::int64_t bytes_max = kBytesMax);

  /// The answer of that number, from 0, among those to the prompt.
  Result<std::optional<StoredAnswer>> find(const std::string& prompt,
                                           int ordinal);
  Result<void> add(const std::string& prompt, const StoredAnswer& answer);

 private:
  LlmCache(Database database, std::int64_t bytes_max)
      : database_(std::move(database)), bytes_max_(bytes_max) {}
  Database database_;
  std::int64_t bytes_max_;
};

/// WEFT_LLM_CACHE, else llm.db in the user's cache folder; empty: there is
/// none.
std::filesystem::path default_llm_cache();

}  // namespace weft
