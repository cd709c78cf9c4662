#include "runtime/report/problems.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft {
namespace {

using nlohmann::json;

struct Problem {
  int rank = 0;  ///< 0 error, 1 warning, 2 note
  std::string what;
  std::string reason;
  std::string subgraph;
};

using Problems = std::vector<Problem>;

std::string text_of(const json& object, const char* field) {
  if (!object.is_object()) return "";
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

void of_run(const json& view, Problems& problems) {
  const json& finished = view["finished"];
  if (finished.is_null()) {
    problems.push_back({1, "not finished", "weft resume goes on with it", ""});
  } else if (finished["exit_code"] != 0) {
    problems.push_back({0, "the run", text_of(finished, "summary"), ""});
  }
  const std::string capture = text_of(view["capture"], "failure");
  if (!capture.empty()) problems.push_back({0, "capture", capture, ""});
  const json& result = view["result"];
  if (!result.is_object()) return;
  const json& verdict = result.value("verdict", json());
  if (verdict.is_object() && !verdict.value("correct", false)) {
    problems.push_back(
        {0, "the composed module", text_of(verdict, "reason"), ""});
  }
  const json near =
      verdict.is_object() ? verdict.value("kernelbench", json()) : json();
  const std::string outcome = text_of(near, "outcome");
  if (!outcome.empty() && outcome != "within") {
    problems.push_back(
        {1, "KernelBench's rule: " + outcome, text_of(near, "reason"), ""});
  }
  for (const json& note : result.value("notes", json::array())) {
    if (note.is_string()) {
      problems.push_back({2, "composition", note.get<std::string>(), ""});
    }
  }
}

/// What a source of seeds failed by, and how often: a model may propose the
/// same again and again.
void of_sources(const json& subgraph, Problems& problems) {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const json& source : subgraph["sources"]) {
    const std::string failure = text_of(source, "failure");
    if (failure.empty()) continue;
    const std::pair key(text_of(source, "origin"), failure);
    if (counts[key]++ == 0) order.push_back(key);
  }
  for (const auto& key : order) {
    std::string reason = key.second;
    if (counts[key] > 1)
      reason += " (" + std::to_string(counts[key]) + " times)";
    problems.push_back(
        {2, text_of(subgraph, "type") + ": no kernel of " + key.first, reason,
         text_of(subgraph, "id")});
  }
}

void of_subgraphs(const json& view, Problems& problems) {
  for (const json& subgraph : view["subgraphs"]) {
    const std::string outcome = text_of(subgraph, "outcome");
    const std::string id = text_of(subgraph, "id");
    const std::string what = text_of(subgraph, "type") + ": " + outcome;
    if (outcome == "wrong" || outcome == "failed") {
      problems.push_back({0, what, text_of(subgraph, "reason"), id});
    } else if (outcome == "not_faster") {
      problems.push_back({2, what, text_of(subgraph, "reason"), id});
    }
    of_sources(subgraph, problems);
    const std::string note = text_of(subgraph.value("llm", json()), "note");
    if (!note.empty()) {
      problems.push_back({2, "language model", note, id});
    }
  }
}

/// Calls that failed alike are one problem.
void of_calls(const json& view, Problems& problems) {
  std::map<std::string, std::pair<int, std::string>> failures;
  for (const json& call : view["calls"]) {
    const json& reply = call["reply"];
    const std::string code = text_of(reply, "failure");
    if (code.empty()) continue;
    auto& [count, message] = failures[code];
    if (count++ == 0) message = text_of(reply, "message");
  }
  for (const auto& [code, found] : failures) {
    problems.push_back(
        {1, std::to_string(found.first) + " calls of language models: " + code,
         found.second, ""});
  }
}

void of_machine(const json& view, Problems& problems) {
  const json& environment = view["environment"];
  if (!environment.is_object()) return;
  std::string lacks;
  for (const json& layer :
       environment["machine"].value("unprotected", json::array())) {
    if (!layer.is_string()) continue;
    lacks += (lacks.empty() ? "" : ", ") + layer.get<std::string>();
  }
  if (!lacks.empty()) problems.push_back({1, "the sandbox lacks", lacks, ""});
}

}  // namespace

json problems_of(const json& view) {
  Problems problems;
  of_run(view, problems);
  of_subgraphs(view, problems);
  of_calls(view, problems);
  of_machine(view, problems);
  std::ranges::stable_sort(problems, {}, &Problem::rank);
  constexpr const char* levels[] = {"error", "warning", "note"};
  json all = json::array();
  for (const Problem& problem : problems) {
    all.push_back({{"level", levels[problem.rank]},
                   {"what", problem.what},
                   {"reason", problem.reason},
                   {"subgraph", problem.subgraph}});
  }
  return all;
}

}  // namespace weft
