// Ctrl-C, SIGTERM and SIGHUP as a stop token. The first asks the run to stop,
// so that it can be resumed; the second ends the process at once.
#pragma once

#include <stop_token>
#include <thread>

namespace weft {

class Interrupt {
 public:
  /// Before any other thread is made: they inherit the blocked signals.
  Interrupt();
  ~Interrupt();

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace weft
