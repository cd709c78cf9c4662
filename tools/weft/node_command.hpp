// The verbs of many machines: `weft node`, `weft keygen`, `weft cluster`
// (docs/how-to/machines.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/weft/commands.hpp"

namespace weft {

struct NodeFlags {
  /// Without a word: runs on this machine, at the port that the pages name.
  std::string join = "tcp://127.0.0.1:7070";
  std::string name;                ///< empty: the host's
  std::vector<std::string> slots;  ///< "cpu=4"
  std::string devices = "all";     ///< or "none"
  std::vector<std::string> only;   ///< "capture", "build", "judge"; empty: all
  std::optional<std::filesystem::path> keys;
  std::optional<std::filesystem::path> folder;
  bool once = false;
  double patience_s = 3'600;  ///< with a head that is away
  int lose_every = 0;         ///< blobs, for tests
};

/// 0: left in peace; 2: wrong usage; 3: the head will not have it.
int node_command(const CommonFlags& common, const NodeFlags& flags);

int keygen_command(const CommonFlags& common,
                   const std::filesystem::path& folder);

int cluster_command(const CommonFlags& common,
                    const std::filesystem::path& run);

}  // namespace weft
