// A role on the test bench: hand it messages, look at what it sends.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

/// Names blobs by their location of arrival, which is all that a role may know.
class FixtureBlobs : public Blobs {
 public:
  Result<std::string> get(std::string_view hash) override {
    const auto found = bytes_.find(hash);
    if (found != bytes_.end()) return found->second;
    return fail(ErrorCode::failed, "no blob " + std::string(hash));
  }
  std::string put(std::string_view bytes) override {
    for (const auto& [hash, known] : bytes_) {
      if (known == bytes) return hash;
    }
    std::string hash = "blob" + std::to_string(bytes_.size());
    bytes_[hash] = bytes;
    return hash;
  }

 private:
  std::map<std::string, std::string, std::less<>> bytes_;
};

template <class R>
class RoleFixture {
 public:
  /// What the role sent on this message, in order.
  std::vector<Outgoing> give(const Address& from, Message message) {
    Context context(blobs, now_us);
    role.receive(from, message, context);
    return context.take_outbox();
  }

  R role;
  FixtureBlobs blobs;
  std::int64_t now_us = 0;
};

/// The messages of type M among `sent`, with their receivers.
template <class M>
std::vector<std::pair<Address, M>> only(const std::vector<Outgoing>& sent) {
  std::vector<std::pair<Address, M>> found;
  for (const Outgoing& outgoing : sent) {
    if (const auto* m = std::get_if<M>(&outgoing.message)) {
      found.emplace_back(outgoing.dst, *m);
    }
  }
  return found;
}

/// The one message of type M; fails the test when there are none or more.
template <class M>
M single(const std::vector<Outgoing>& sent) {
  const auto found = only<M>(sent);
  REQUIRE(found.size() == 1);
  return found.front().second;
}

}  // namespace weft
