// A folder of this process's own, gone with the object.
#pragma once

#include <filesystem>
#include <string>

#include "messages/result.hpp"

namespace weft {

class TemporaryFolder {
 public:
  /// Below TMPDIR. missing: none can be made there.
  static Result<TemporaryFolder> make(const std::string& prefix);

  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path)
      : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace weft
