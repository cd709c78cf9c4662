// The store as one turn of a role sees it, and whether it failed meanwhile. A
// disk error is the host's: a replay could not repeat what a role makes of it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "actors/role.hpp"

namespace weft {

class WatchedBlobs : public Blobs {
 public:
  explicit WatchedBlobs(Blobs& blobs) : blobs_(blobs) {}

  Result<std::string> get(std::string_view hash) override {
    auto bytes = blobs_.get(hash);
    if (!bytes && !error_) error_ = bytes.error();
    return bytes;
  }
  std::string put(std::string_view bytes) override { return blobs_.put(bytes); }

  /// The first one.
  const std::optional<Error>& error() const { return error_; }

 private:
  Blobs& blobs_;
  std::optional<Error> error_;
};

}  // namespace weft
