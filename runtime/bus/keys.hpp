// The CURVE keys of a head and its nodes, as `weft keygen` writes them. What is
// secret is readable by its owner alone, here and in memory only.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "messages/result.hpp"

namespace weft {

/// Z85 texts of 40 characters.
struct BusKeys {
  std::string own_public;
  std::string own_secret;
  std::string head_public;        ///< a node's: whom it talks to
  std::set<std::string> allowed;  ///< a head's: who may come in
  bool empty() const { return own_secret.empty(); }
};

/// Makes DIR with head.key, head.secret, node.key, node.secret and `allowed`, a
/// public key a line. wrong_input: there are keys already.
Result<void> make_keys(const std::filesystem::path& folder);

/// wrong_input: a file is not there, is no key, or is a secret that others can
/// read.
Result<BusKeys> read_head_keys(const std::filesystem::path& folder);
Result<BusKeys> read_node_keys(const std::filesystem::path& folder);

/// True for "tcp://127.…", "tcp://[::1]…", "tcp://localhost…" and "ipc://…":
/// nobody else can reach it.
bool is_loopback(const std::string& endpoint);

/// wrong_input: a head would let strangers in there.
Result<void> check_is_closed(const std::string& endpoint, bool has_keys);

}  // namespace weft
