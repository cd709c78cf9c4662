#include "runtime/bus/fleet_shares.hpp"

#include <algorithm>

namespace weft {

void FleetShares::begin_run(const std::string& run) {
  if (std::ranges::find(runs_, run) == runs_.end()) runs_.push_back(run);
}

void FleetShares::end_run(const std::string& run) {
  std::erase(runs_, run);
  for (auto& [name, node] : nodes_) {
    if (node.run == run) node.run.clear();
  }
}

void FleetShares::join(const std::string& name, Kind kind) {
  nodes_.try_emplace(name).first->second.kind = kind;
}

void FleetShares::leave(const std::string& name) { nodes_.erase(name); }

std::vector<FleetShares::Change> FleetShares::settle() {
  std::vector<Change> changes;
  share(Kind::judge, reserved_, changes);
  share(Kind::builder, 0, changes);
  return changes;
}

void FleetShares::give(const std::string& name, const std::string& run,
                       std::vector<Change>& changes) {
  Node& node = nodes_.at(name);
  changes.push_back({name, node.run, run});
  node.run = run;
  node.given = ++clock_;
}

void FleetShares::share(Kind kind, std::size_t reserved,
                        std::vector<Change>& changes) {
  if (runs_.empty()) return;
  std::vector<std::string> free;
  std::map<std::string, std::vector<std::string>> served;  // by run
  for (const auto& [name, node] : nodes_) {
    if (node.kind != kind) continue;
    (node.run.empty() ? free : served[node.run]).push_back(name);
  }
  const auto count = [&](const std::string& run) { return served[run].size(); };
  while (true) {
    // Of equal runs the one that began first.
    const std::string& poorest = *std::ranges::min_element(runs_, {}, count);
    const std::string& richest = *std::ranges::max_element(runs_, {}, count);
    if (!free.empty() && (count(poorest) == 0 || free.size() > reserved)) {
      served[poorest].push_back(free.front());
      give(free.front(), poorest, changes);
      free.erase(free.begin());
      continue;
    }
    if (count(richest) < count(poorest) + 2) return;
    auto& given = served[richest];
    const auto newest = std::ranges::max_element(
        given, {},
        [&](const std::string& name) { return nodes_.at(name).given; });
    const std::string moved = *newest;
    given.erase(newest);
    served[poorest].push_back(moved);
    give(moved, poorest, changes);
  }
}

const std::string& FleetShares::run_of(const std::string& name) const {
  static const std::string kNone;
  const auto node = nodes_.find(name);
  return node == nodes_.end() ? kNone : node->second.run;
}

std::vector<std::string> FleetShares::nodes_of(const std::string& run) const {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const auto& [name, node] : nodes_) {
    if (node.run == run) found.emplace_back(node.given, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [given, name] : found) names.push_back(std::move(name));
  return names;
}

std::size_t FleetShares::judges() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      nodes_,
      [](const auto& item) { return item.second.kind == Kind::judge; }));
}

}  // namespace weft
