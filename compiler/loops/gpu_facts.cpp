#include "compiler/loops/gpu_facts.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace weft {
namespace {

/// 90 of "sm_90" and of "sm_90a"; 0 of what is none.
int number_of(const std::string& arch) {
  int number = 0;
  for (const char c : arch) {
    if (c >= '0' && c <= '9') number = 10 * number + (c - '0');
  }
  return number;
}

/// docs/reference/worker-protocol.md: "clusters_of_8".
std::map<std::int64_t, std::int64_t> clusters_in(
    const std::map<std::string, double>& numbers) {
  constexpr std::string_view start = "clusters_of_";
  std::map<std::int64_t, std::int64_t> clusters;
  for (auto at = numbers.lower_bound(std::string(start));
       at != numbers.end() && at->first.starts_with(start); ++at) {
    std::int64_t blocks = 0;
    const char* first = at->first.data() + start.size();
    const char* last = at->first.data() + at->first.size();
    const bool is_number = std::from_chars(first, last, blocks).ptr == last;
    if (is_number && blocks > 0 && at->second >= 1) {
      clusters[blocks] = static_cast<std::int64_t>(at->second);
    }
  }
  return clusters;
}

}  // namespace

GpuFacts gpu_facts(const Machine& machine, const Choices& choices) {
  GpuFacts facts;
  facts.choices = choices;
  if (machine.gpus.empty()) return facts;
  const Gpu& gpu = machine.gpus.front();
  facts.interpreted = false;
  facts.sms = std::max(1, gpu.sms);
  if (gpu.resident_threads > 0) facts.resident_threads = gpu.resident_threads;
  facts.rates = device_rates(machine);
  facts.l2_bytes = gpu.l2_bytes;
  facts.shared_bytes = gpu.shared_bytes;
  facts.clusters = number_of(gpu.arch) >= 90;
  facts.clusters_of = clusters_in(machine.gpu_numbers);
  return facts;
}

}  // namespace weft
