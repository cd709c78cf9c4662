#include "actors/llm/grouping.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "actors/llm/templates.hpp"
#include "actors/llm/text.hpp"
#include "compiler/fusion/signature.hpp"
#include "compiler/text/python_text.hpp"
#include "messages/parse_json.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kCallsMax = 2'000;
constexpr std::size_t kGroupsMax = 1'000;

std::string type_text(const Node& node) {
  if (node.values.empty() || !node.values.front()) return "?";
  return shape_text(*node.values.front()) + (node.is_tuple ? " and more" : "");
}

std::string call_line(const Node& node, const std::string& piece) {
  return node.name + " = " + node.target + "(" + python_arguments(node) +
         ")  " + type_text(node) + "  " + (piece.empty() ? "none" : piece) +
         "\n";
}

/// From the first brace to the last: what stands around it is talk.
std::string_view object_in(std::string_view answer) {
  const auto begin = answer.find('{');
  const auto end = answer.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos ||
      end < begin) {
    return "";
  }
  return answer.substr(begin, end + 1 - begin);
}

}  // namespace

Result<std::vector<LlmPart>> grouping_prompt(const Plan& plan,
                                             const LlmOptions& options,
                                             const std::string& fault,
                                             Blobs& blobs) {
  std::map<std::string, std::string> piece_of;
  for (const Placement& placement : plan.placements) {
    for (const std::string& name : placement.nodes) {
      piece_of[name] = placement.subgraph;
    }
  }
  TemplateWords words;
  std::size_t count = 0;
  for (const Node& node : plan.model.nodes) {
    if (node.kind != NodeKind::call) continue;
    if (++count > kCallsMax) {
      return fail(
          ErrorCode::wrong_input,
          "the model has more than " + std::to_string(kCallsMax) + " calls");
    }
    words["calls"] += call_line(node, piece_of[node.name]);
  }
  words["fault"] =
      fault.empty() ? "" : "Your last proposal was refused: " + fault + ".\n\n";
  const auto text = template_text("group", options, blobs);
  if (!text) return std::unexpected(text.error());
  return std::vector<LlmPart>{{"user", blobs.put(filled(*text, words)), false}};
}

std::string refused_proposal(std::string_view answer) {
  constexpr std::size_t kProposalMax = 4'000;
  const std::string_view object = object_in(answer);
  if (object.empty()) return "";
  const std::string proposal(object.substr(0, kProposalMax));
  const std::string fence = fence_for(proposal);
  return ". It was:\n\n" + fence + "json\n" + proposal + "\n" + fence +
         "\n\nThe fault is named above: change that part";
}

Result<CallGroups> groups_in(std::string_view answer) {
  const auto object = parse_json(object_in(answer));
  if (!object.is_object() || !object.contains("groups") ||
      !object["groups"].is_array()) {
    return fail(ErrorCode::wrong_input,
                "the answer has no JSON object with \"groups\"");
  }
  CallGroups groups;
  for (const json& group : object["groups"]) {
    if (groups.size() >= kGroupsMax) {
      return fail(
          ErrorCode::wrong_input,
          "the answer has more than " + std::to_string(kGroupsMax) + " groups");
    }
    if (!group.is_array()) {
      return fail(ErrorCode::wrong_input, "a group is no list of names");
    }
    auto& names = groups.emplace_back();
    for (const json& name : group) {
      if (!name.is_string()) {
        return fail(ErrorCode::wrong_input, "a group is no list of names");
      }
      names.push_back(name.get<std::string>());
    }
  }
  return groups;
}

}  // namespace weft
