// `weft head`: a service that searches kernels for programs of other machines
// on nodes (docs/how-to/machines.md). The Python side decides (weft.head): this
// process becomes it.
//
// `weft head-link`: a ZeroMQ connection for the Python side, as lines of JSON.
// It ends with its standard input. A message is one text in each direction:
//   --listen, the head's:
//     writes {"listens": ADDRESS}, then {"from": PEER, "user": KEY, "text": T}
//     reads {"to": PEER, "text": T}
//   --connect, a program's:
//     writes {"classes": [NAME]}, the device classes of this machine, then
//     {"text": T}
//     reads {"text": T}
// A message for a peer that is gone, and one without a connection, is lost: who
// needs an answer asks again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tools/weft/commands.hpp"

namespace weft {

struct HeadFlags {
  std::string users;  ///< where programs connect to
  std::optional<std::filesystem::path> user_keys;
  ListenFlags nodes;
  std::string target = "auto";
  std::filesystem::path
      folder;                 ///< kept results; empty: below the user's cache
  int jobs_max = 0;           ///< searches at once; 0: as many as nodes judge
  int per_user = 8;           ///< searches of one user that wait or run
  double budget_s_max = 600;  ///< of one search
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
