#include "compiler/compose/parts_source.hpp"

#include <algorithm>
#include <map>

#include "compiler/text/python_text.hpp"
#include "embedded/compiler/compose/python/as_captured.py"

namespace weft {

namespace {

/// Class Model is ModelNew now, and its private names are with it.
std::string renamed(std::string text) {
  if (text == ".Model" || text.starts_with(".Model.") ||
      text.starts_with("_Model__")) {
    text.insert(sizeof("_Model") - 1, "New");
  }
  return text;
}

std::string strings(const std::vector<std::string>& texts) {
  std::string listed;
  for (const std::string& text : texts) {
    listed += (listed.empty() ? "" : ", ") + python_string(renamed(text));
  }
  return "(" + listed + (texts.size() == 1 ? ",)" : ")");
}

std::string settings_of(const Part& part) {
  std::string listed;
  for (const auto& [name, text] : part.settings) {
    listed += (listed.empty() ? "" : ", ") + python_string(renamed(name)) +
              ": " + python_string(text);
  }
  return "{" + listed + "}";
}

std::string row(const Part& part, std::size_t above) {
  const std::string name = part.module.substr(part.module.rfind('.') + 1);
  return "    (" + std::to_string(above) + ", " + python_string(name) + ", " +
         python_string(renamed(part.kind)) + ", " + strings(part.hooks) + ", " +
         std::to_string(part.size) + ",\n     " + settings_of(part) +
         ",\n     " + strings(part.absent) + ", " + strings(part.empty) +
         "),\n";
}

constexpr std::string_view kTable =
    "# Of each part of the model: the one above it (the model is 0) and its "
    "name\n# there, its class, hooks and number of parts, what forward() reads "
    "of it, and\n# what it looks for in vain.\n_weft_parts = (\n";

}  // namespace

std::string parts_source(const std::vector<Part>& parts) {
  if (parts.empty()) return "";
  std::string text(kTable);
  std::map<std::string, std::size_t> row_of;
  for (const Part& part : parts) {
    const auto dot = part.module.rfind('.');
    const std::string above =
        dot == std::string::npos ? "" : part.module.substr(0, dot);
    text += row(part, row_of.empty() ? 0 : row_of.at(above));
    row_of.emplace(part.module, row_of.size());
  }
  return text + ")\n" +
         std::string(embedded::compiler_compose_python_as_captured);
}

bool reads_mode(const std::vector<Part>& parts) {
  if (parts.empty()) return true;
  return std::ranges::any_of(parts, [](const Part& part) {
    return std::ranges::any_of(part.settings, [](const auto& setting) {
      return setting.first == "training";
    });
  });
}

}  // namespace weft
