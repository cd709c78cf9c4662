// The pages of `weft ui` over HTTP: the list of runs, each run's live page, its
// past at any event, and /metrics. Only reads. What may be asked, and by whom,
// is limited (access.hpp); nothing that a journal says runs in a browser.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include "messages/result.hpp"
#include "runtime/ui/access.hpp"

namespace weft {

class PageServer {
 public:
  struct Options {
    std::filesystem::path root;  ///< a run, or a folder of runs
    Access access;
    int port = 0;  ///< 0: any that is free
  };

  /// Takes the port. missing: it cannot be had.
  static Result<PageServer> listen(const Options& options);

  PageServer(PageServer&&) noexcept;
  ~PageServer();

  int port() const;

  /// Answers until it is told to stop.
  void serve(std::stop_token stop);

 private:
  struct State;
  explicit PageServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
