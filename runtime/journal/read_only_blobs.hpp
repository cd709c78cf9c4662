// A journal's blobs for a replay: what roles put is kept in memory only.
#pragma once

#include <map>
#include <string>

#include "actors/role.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {

class ReadOnlyBlobs : public Blobs {
 public:
  explicit ReadOnlyBlobs(const Journal& journal) : journal_(journal) {}

  Result<std::string> get(std::string_view hash) override {
    const auto found = put_.find(hash);
    if (found != put_.end()) return found->second;
    return journal_.get_blob(hash);
  }

  std::string put(std::string_view bytes) override {
    std::string hash = content_hash(bytes);
    put_.try_emplace(hash, bytes);
    return hash;
  }

 private:
  const Journal& journal_;
  std::map<std::string, std::string, std::less<>> put_;
};

}  // namespace weft
