#include "tools/weft/choices_command.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "compiler/choices/choices.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {
namespace {

void print(const CommonFlags& common, const NamedChoice& one) {
  if (common.json) {
    const nlohmann::json line = {{"name", one.name},    {"value", one.value},
                                 {"unit", one.unit},    {"least", one.least},
                                 {"most", one.most},    {"whole", one.is_whole},
                                 {"source", one.source}};
    print_line(line);
    return;
  }
  const std::string bounds =
      choice_text(one.least) + ".." + choice_text(one.most);
  std::printf("%-45s %12s  %-18s %-29s %s\n", one.name.c_str(),
              choice_text(one.value).c_str(), bounds.c_str(), one.unit.c_str(),
              one.source.c_str());
}

}  // namespace

int choices_command(const CommonFlags& common, const std::string& part) {
  bool is_any = false;
  for (const NamedChoice& one : list_choices()) {
    if (!one.name.contains(part)) continue;
    print(common, one);
    is_any = true;
  }
  if (is_any) return 0;
  const auto unknown = choices_with({{part, 0}});
  return report_error(common, unknown.error());
}

}  // namespace weft
