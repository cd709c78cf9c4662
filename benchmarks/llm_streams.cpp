// What many language models' streams at once cost this process: processor time
// against wall time, memory a stream, and how late another thread of the
// process wakes meanwhile. Against a server that streams slowly:
//
//     benchmarks/llm_streams.py [STREAMS]     (starts both)
//     bench_llm_streams BASE_URL [STREAMS]
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "runtime/llm/client.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) * 1e-6;
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

/// Resident now, in bytes; 0 where /proc does not tell.
double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double all = 0;
  double resident = 0;
  in >> all >> resident;
  constexpr double kPageBytes = 4096;
  return resident * kPageBytes;
}

/// Wakes every 10 ms, as another actor might, and notes the memory's peak and
/// how late it was at worst.
struct Watch {
  std::atomic<double> late_ms = 0;
  std::atomic<double> peak_bytes = 0;
  std::jthread thread;

  void begin() {
    thread = std::jthread([this](std::stop_token stop) {
      while (!stop.stop_requested()) {
        const auto due = Clock::now() + std::chrono::milliseconds(10);
        std::this_thread::sleep_until(due);
        const std::chrono::duration<double, std::milli> late =
            Clock::now() - due;
        late_ms = std::max(late_ms.load(), late.count());
        peak_bytes = std::max(peak_bytes.load(), resident_bytes());
      }
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_llm_streams BASE_URL [STREAMS]\n");
    return 2;
  }
  const int streams = argc > 2 ? std::atoi(argv[2]) : 500;
  LlmEndpoint endpoint;
  endpoint.provider.name = "bench";
  endpoint.provider.dialect = "openai";
  endpoint.provider.model = "scripted";
  endpoint.base_url = argv[1];
  Prompt prompt;
  prompt.texts = {{"user", std::string(20'000, 'p'), false}};

  LlmClient client;
  std::latch done(streams);
  std::atomic<int> failed = 0;
  std::atomic<long long> text_bytes = 0;
  Watch watch;
  const double memory_before = resident_bytes();
  const double cpu_before = cpu_seconds();
  const auto began = Clock::now();
  watch.begin();
  for (int i = 0; i < streams; ++i) {
    client.ask(endpoint, prompt, [&](LlmAnswer answer) {
      if (answer.failure) {
        ++failed;
        std::fprintf(stderr, "%s\n", answer.failure.message.c_str());
      } else {
        text_bytes += static_cast<long long>(answer.texts.front().text.size());
      }
      done.count_down();
    });
  }
  done.wait();
  const std::chrono::duration<double> wall = Clock::now() - began;
  const double cpu = cpu_seconds() - cpu_before;
  watch.thread = {};
  const double memory = watch.peak_bytes - memory_before;
  std::printf(
      "%d streams at once, %d failed, %.1f MB of text in %.1f s\n"
      "processor: %.2f s, %.2f of one core\n"
      "memory: %.0f kB a stream\n"
      "another thread woke at worst %.1f ms late\n",
      streams, failed.load(), static_cast<double>(text_bytes.load()) / 1e6,
      wall.count(), cpu, cpu / wall.count(), memory / streams / 1e3,
      watch.late_ms.load());
  return failed == 0 ? 0 : 1;
}
