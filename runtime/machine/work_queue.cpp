#include "runtime/machine/work_queue.hpp"

namespace weft {

WorkQueue::WorkQueue(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this](std::stop_token stop) { loop(stop); });
  }
}

WorkQueue::~WorkQueue() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();  // joins
}

void WorkQueue::push(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_.notify_one();
}

void WorkQueue::loop(std::stop_token stop) {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !jobs_.empty(); })) return;
      if (stop.stop_requested()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace weft
