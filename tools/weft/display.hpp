// What a person watches while a run goes on: on a terminal one live line a
// subgraph, elsewhere a line an event; with --json an object an event.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/vocabulary.hpp"
#include "tools/weft/commands.hpp"

namespace weft {

class Display {
 public:
  explicit Display(const CommonFlags& flags);

  /// One thread at a time.
  void show(const Envelope& envelope, const Message& message);

  /// A line that is no event, such as the run's folder; not with --quiet.
  void say(const std::string& line);

 private:
  void progress(const Progress& progress);
  void redraw();
  void wipe();
  std::string clock() const;

  bool quiet_;
  bool verbose_;
  bool json_;
  bool live_;  ///< redraws in place
  std::chrono::steady_clock::time_point start_;
  std::vector<std::string> order_;  ///< subgraphs, first come first
  std::map<std::string, std::string> lines_;
  std::size_t drawn_ = 0;
};

}  // namespace weft
