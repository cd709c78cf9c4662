#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/export/exports.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// Lanes of one kind of work at one location: each gets what begins after the
/// last one in it has ended.
class Lanes {
 public:
  std::size_t lane_for(std::int64_t start_us, std::int64_t end_us) {
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i] > start_us) continue;
      ends_[i] = end_us;
      return i;
    }
    ends_.push_back(end_us);
    return ends_.size() - 1;
  }

 private:
  std::vector<std::int64_t> ends_;
};

json name_event(const char* what, std::size_t process, std::size_t thread,
                const std::string& name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", process},
          {"tid", thread},
          {"args", {{"name", name}}}};
}

}  // namespace

std::string trace_export(const json& view) {
  const json& timeline = view["timeline"];
  json events = json::array();
  for (std::size_t i = 0; i < timeline["locations"].size(); ++i) {
    events.push_back(name_event("process_name", i + 1, 0,
                                timeline["locations"][i].get<std::string>()));
  }
  std::map<std::pair<std::size_t, std::string>, Lanes> lanes;
  // Threads are numbered in the order of their kinds' first work.
  std::map<std::pair<std::size_t, std::string>, std::size_t> threads;
  for (const json& span : timeline["spans"]) {
    const auto kind = span[0].get<std::string>();
    const auto index = span[1].get<std::size_t>() + 1;
    const auto start = span[2].get<std::int64_t>();
    const auto length = span[3].get<std::int64_t>();
    const auto lane = lanes[{index, kind}].lane_for(start, start + length);
    const std::string thread_name =
        lane == 0 ? kind : kind + " " + std::to_string(lane + 1);
    const auto [thread, is_new] =
        threads.try_emplace({index, thread_name}, threads.size() + 1);
    if (is_new) {
      events.push_back(
          name_event("thread_name", index, thread->second, thread_name));
    }
    const auto label = span[5].get<std::string>();
    events.push_back({{"ph", "X"},
                      {"name", label.empty() ? kind : kind + " " + label},
                      {"cat", kind},
                      {"pid", index},
                      {"tid", thread->second},
                      {"ts", start},
                      {"dur", length},
                      {"args", {{"subgraph", span[4]}, {"failure", span[6]}}}});
  }
  const json trace = {{"traceEvents", events},
                      {"displayTimeUnit", "ms"},
                      {"otherData",
                       {{"problem", view["problem"]},
                        {"begun_us", view["begun_us"]},
                        {"left_out", timeline["left_out"]}}}};
  return trace.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

}  // namespace weft
