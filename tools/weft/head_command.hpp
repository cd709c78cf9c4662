// `weft head`: a service that searches kernels for programs of other machines
// on nodes (docs/how-to/machines.md). The Python side decides (weft.head): this
// process becomes it.
//
// `weft head-link`: a ZeroMQ connection for the Python side, as lines of JSON.
// It ends with its standard input. A message is one text in each direction:
//   --listen, the head's:
//     writes {"listens": ADDRESS}, then {"from": PEER, "user": KEY, "text": T};
//     reads {"to": PEER, "text": T}.
//   --connect, a program's:
//     writes {"classes": [NAME]}, the device classes of this machine, then
//     {"text": T};
//     reads {"text": T}.
// A message for a peer that is gone is lost, and so is one without a
// connection. The sender asks again if it needs an answer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tools/weft/commands.hpp"

namespace weft {

struct HeadFlags {
  std::string users;  ///< The address that programs connect to.
  std::optional<std::filesystem::path> user_keys;
  ListenFlags nodes;
  std::string target = "auto";
  /// The folder of kept results. Empty: a folder below the user's cache.
  std::filesystem::path folder;
  int jobs_max = 0;  ///< Searches at once. 0: one for each judging node.
  int per_user = 8;  ///< Limit of one user's waiting and running searches.
  double budget_s_max = 600;  ///< Limit of one search.
};

struct LinkFlags {
  std::string listen;
  std::string connect;
  std::optional<std::filesystem::path> keys;
  std::string target = "auto";
};

/// Returns only if the Python side cannot be started. 2: an address or keys
/// are wrong.
int head_command(const CommonFlags& common, const HeadFlags& flags);

/// 0: standard input was closed; 2: the address or the keys are wrong.
int head_link_command(const CommonFlags& common, const LinkFlags& flags);

}  // namespace weft
