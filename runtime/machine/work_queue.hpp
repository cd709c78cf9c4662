// Runs jobs on a few threads of its own, first come first served. What is
// queued when it is destroyed is dropped; what runs is waited for.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace weft {

class WorkQueue {
 public:
  using Job = std::function<void()>;

  explicit WorkQueue(std::size_t threads);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Any thread; never blocks.
  void push(Job job);

 private:
  void loop(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Job> jobs_;
  std::vector<std::jthread> threads_;
};

}  // namespace weft
