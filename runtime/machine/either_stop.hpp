// A stop token that says stop as soon as one of two does: the run's, or that of
// one piece of work.
#pragma once

#include <functional>
#include <stop_token>
#include <utility>

namespace weft {

class EitherStop {
 public:
  EitherStop(std::stop_token item, std::stop_token other)
      : first_(std::move(item), [this] { source_.request_stop(); }),
        second_(std::move(other), [this] { source_.request_stop(); }) {}
  EitherStop(const EitherStop&) = delete;
  EitherStop& operator=(const EitherStop&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;  // before the callbacks, which may run at once
  std::stop_callback<std::function<void()>> first_;
  std::stop_callback<std::function<void()>> second_;
};

}  // namespace weft
