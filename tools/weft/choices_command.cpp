#include "tools/weft/choices_command.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "compiler/choices/choices.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {
namespace {

void print(const CommonFlags& common, const NamedChoice& named_choice) {
  if (common.json) {
    const nlohmann::json line = {
        {"name", named_choice.name},    {"value", named_choice.value},
        {"unit", named_choice.unit},    {"least", named_choice.least},
        {"most", named_choice.most},    {"whole", named_choice.is_whole},
        {"source", named_choice.source}};
    print_line(line);
    return;
  }
  const std::string bounds =
      choice_text(named_choice.least) + ".." + choice_text(named_choice.most);
  std::printf("%-45s %12s  %-18s %-29s %s\n", named_choice.name.c_str(),
              choice_text(named_choice.value).c_str(), bounds.c_str(),
              named_choice.unit.c_str(), named_choice.source.c_str());
}

}  // namespace

int choices_command(const CommonFlags& common, const std::string& part) {
  bool is_any = false;
  for (const NamedChoice& list_choice : list_choices()) {
    if (!list_choice.name.contains(part)) continue;
    print(common, list_choice);
    is_any = true;
  }
  if (is_any) return 0;
  const auto unknown = choices_with({{part, 0}});
  return report_error(common, unknown.error());
}

}  // namespace weft
