#include "compiler/compose/forward_guard.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/text/python_text.hpp"

namespace weft {

namespace {

bool is_plain_name(const std::string& part) {
  static const std::set<std::string> kKeywords{
      "False",  "None",   "True",    "and",      "as",       "assert", "async",
      "await",  "break",  "class",   "continue", "def",      "del",    "elif",
      "else",   "except", "finally", "for",      "from",     "global", "if",
      "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
      "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
  };
  // Names with two underscores in front are mangled inside a class.
  return !part.empty() && std::ranges::all_of(part, letter) &&
         !(part[0] >= '0' && part[0] <= '9') && !part.starts_with("__") &&
         !kKeywords.contains(part);
}

/// "xs[0]['k']" → "xs", "xs[0]", "xs[0]['k']"; keys hold no brackets.
std::vector<std::string> prefixes(const std::string& target) {
  std::vector<std::string> found;
  for (std::size_t i = 1; i <= target.size(); ++i) {
    if (i == target.size() || target[i] == '[') {
      found.push_back(target.substr(0, i));
    }
  }
  return found;
}

Condition number_condition(const Node& input) {
  if (input.args.empty()) {
    return {input.target + " is None", input.target + " is not None"};
  }
  const std::string value = python_value(input.args.front());
  return {"type(" + input.target + ") is type(" + value + ") and " +
              input.target + " == " + value,
          input.target + " is not " + value};
}

/// "x is no float32 tensor of (3, 3) with strides (3, 1) on …".
Condition tensor_condition(const Node& input) {
  const TensorType& type = *input.values.front();
  return {fits_condition(input.target, type),
          input.target + " is no plain " + std::string(dtype_name(type.dtype)) +
              " tensor of shape " + python_tuple(type.shape) + " and strides " +
              python_tuple(type.stride) + " where its kernels run"};
}

/// Containers hold what they held, no more and no less.
std::vector<Condition> container_conditions(const Graph& model) {
  std::vector<std::string> order;
  std::map<std::string, std::set<std::string>> children;
  for (const Node& node : model.nodes) {
    if (node.kind != NodeKind::input) continue;
    const auto parts = prefixes(node.target);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      if (!children.contains(parts[i])) order.push_back(parts[i]);
      children[parts[i]].insert(parts[i + 1].substr(parts[i].size()));
    }
  }
  std::vector<Condition> conditions;
  for (const std::string& container : order) {
    const std::string otherwise =
        container + " does not hold what it held when it was captured";
    const auto wants = [&](const std::string& code) {
      conditions.push_back({code, otherwise});
    };
    wants("isinstance(" + container + ", (list, tuple, dict))");
    wants("len(" + container +
          ") == " + std::to_string(children[container].size()));
    for (const std::string& key : children[container]) {
      if (key.size() < 3 || (key[1] != '\'' && key[1] != '"')) continue;
      wants(key.substr(1, key.size() - 2) + " in " + container);
    }
  }
  return conditions;
}

}  // namespace

std::vector<std::string> parts_of(const std::string& target) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= target.size()) {
    const auto end = std::min(target.find('.', begin), target.size());
    parts.push_back(target.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string attribute_path(const std::string& self, const std::string& target) {
  std::string path = self;
  for (const std::string& part : parts_of(target)) {
    path = is_plain_name(part)
               ? path + "." + part
               : "getattr(" + path + ", " + python_string(part) + ")";
  }
  return path;
}

std::string fits_condition(const std::string& expression,
                           const TensorType& type) {
  return "_weft_fits(" + expression + ", " + python_tuple(type.shape) + ", " +
         python_tuple(type.stride) + ", torch." +
         std::string(dtype_name(type.dtype)) + ")";
}

std::vector<Condition> argument_conditions(const Graph& model,
                                           const ProblemSource& problem) {
  using Kind = PythonParameter::Kind;
  std::vector<Condition> conditions;
  for (const PythonParameter& parameter : problem.parameters) {
    const bool captured = std::ranges::any_of(model.nodes, [&](const Node& n) {
      return n.kind == NodeKind::input &&
             prefixes(n.target).front() == parameter.name;
    });
    if (captured) continue;
    if (parameter.kind == Kind::positional_rest ||
        parameter.kind == Kind::keyword_rest) {
      conditions.push_back({"not " + parameter.name,
                            "there are more arguments than were captured"});
    } else if (parameter.has_default) {
      conditions.push_back(
          {parameter.name + " is _weft_defaults[\"" + parameter.name + "\"]",
           parameter.name + " is not its default"});
    }
  }
  for (auto& condition : container_conditions(model)) {
    conditions.push_back(std::move(condition));
  }
  for (const Node& node : model.nodes) {
    if (node.kind != NodeKind::input) continue;
    conditions.push_back(node.values.empty() || !node.values.front()
                             ? number_condition(node)
                             : tensor_condition(node));
  }
  return conditions;
}

}  // namespace weft
