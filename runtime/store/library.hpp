// The kernel library: one SQLite file that all runs of a user share, with the
// best known kernel for each question, and with what any run would make again
// alike (captured graphs, built kernels). docs/reference/kernel-library.md has
// its tables.
//
// Each call opens the file, does one short transaction and closes it, so any
// number of threads and processes may use it. Nothing in it is believed: a
// kernel found here is verified like any other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/known_kernels.hpp"
#include "messages/result.hpp"
#include "runtime/store/pattern_table.hpp"
#include "runtime/store/sqlite.hpp"

namespace weft {

/// A kernel with its text; `kernel.source` is not looked at.
struct StoredKernel {
  KnownKernel kernel;
  std::string text;
};

/// All that a library has of one question.
struct LibraryEntry {
  KernelKey key;
  StoredKernel stored;
  std::int64_t stored_us = 0;  ///< since 1970: when it was verified and timed
  std::int64_t uses = 0;       ///< that it was verified anew
};

/// Above these, what was not used for longest goes.
struct LibraryLimits {
  std::int64_t kernels_bytes = 64 << 20;  ///< of texts
  std::int64_t made_bytes = 192 << 20;
  std::int64_t patterns_bytes = 4 << 20;
};

class Library {
 public:
  /// Microseconds since 1970: when an entry was used last.
  using Clock = std::function<std::int64_t()>;

  /// Touches nothing yet. An empty path: there is no library, and each call
  /// fails.
  explicit Library(std::filesystem::path file, LibraryLimits limits = {},
                   Clock clock = {});

  const std::filesystem::path& file() const { return file_; }
  bool is_there() const { return !file_.empty(); }

  Result<std::optional<StoredKernel>> find(const KernelKey& key) const;

  /// One transaction: `judged` (a text; empty: none) goes if it is still what
  /// stands there; then `best`, if any, is put there unless a faster one of
  /// another run stands there now. Doing it twice changes nothing more.
  /// `pattern` is how `best` came about; a pattern goes with its kernel.
  Result<void> keep(
      const KernelKey& key, std::string_view judged,
      const std::optional<StoredKernel>& best,
      const std::optional<StoredPattern>& pattern = std::nullopt) const;

  /// Patterns of subgraphs similar to that of the key, whose own is left out.
  Result<std::vector<StoredPattern>> similar(const PatternQuery& query,
                                             const KernelKey& key) const;

  /// Every kernel, by key. Only reads: wrong_input where there is no library.
  Result<std::vector<LibraryEntry>> entries() const;

  /// The built code for `key`. nullopt, too, when this user did not keep
  /// exactly these bytes for that key.
  Result<std::optional<std::string>> find_artefact(std::string_view key) const;
  Result<void> store_artefact(std::string_view key,
                              std::string_view bytes) const;

 private:
  Result<Database> open() const;
  Result<void> put_pattern(Database& database, const std::string& id,
                           bool is_same_kernel,
                           const std::optional<StoredPattern>& pattern) const;
  Result<void> trim(Database& database, const char* table,
                    std::int64_t bytes_max) const;

  std::filesystem::path file_;
  LibraryLimits limits_;
  Clock clock_;
};

/// Where it lies unless somebody says otherwise: the variable WEFT_LIBRARY
/// (empty: nowhere), else "library.db" in cache_folder(). Empty: nowhere.
std::filesystem::path default_library();

/// The user's own folder for what can be made again: "weft" below
/// XDG_CACHE_HOME, else below ~/.cache. Empty where the user has none.
std::filesystem::path cache_folder();

}  // namespace weft
