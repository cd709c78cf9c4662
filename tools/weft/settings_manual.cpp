// The tables of docs/reference/settings.md.
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "config/folder_settings.hpp"
#include "config/llm_settings.hpp"
#include "messages/joined.hpp"
#include "messages/shown_text.hpp"
#include "tools/weft/manual.hpp"
#include "tools/weft/settings_flags.hpp"

namespace weft {
namespace {

/// Answers of `may_lie_in_folder` for the values that they may depend on.
std::string_view rule_of_folder(const std::string& name) {
  const auto may = [&name](const std::string& value) {
    return may_lie_in_folder(name, {Setting::Kind::text, {value}, "", true});
  };
  if (is_budget(name)) return "if lower";
  if (may("true") && !may("false")) return "if true";
  if (may("compiler") && !may("llm")) return "without llm";
  return may("true") ? "yes" : "no";
}

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string_view kind_text(Setting::Kind kind) {
  switch (kind) {
    case Setting::Kind::text:
      return "text";
    case Setting::Kind::integer:
      return "integer";
    case Setting::Kind::number:
      return "number";
    case Setting::Kind::boolean:
      return "true or false";
    case Setting::Kind::list:
      return "list";
  }
  return "";
}

}  // namespace

std::string settings_text(const CLI::App& run) {
  std::ostringstream out;
  out << "## Settings of a run\n\nSection `[run]`: the flags of [`weft "
         "run`](command-line.md#weft-run), which has meanings and "
         "defaults.\n\n| folder | settings |\n|---|---|\n";
  std::map<std::string_view, std::vector<std::string>, std::greater<>> settings;
  for (const std::string& name : setting_names(run)) {
    settings[rule_of_folder("run." + name)].push_back(code(name));
  }
  for (const auto& [rule, names] : settings) {
    out << "| " << rule << " | " << joined(names, ", ") << " |\n";
  }
  out << "\n## Settings of a language model\n\nSection `[llm.NAME]`, one for "
         "each provider.\n\n| setting | "
         "type | default | meaning |\n|---|---|---|---|\n";
  for (const LlmSettingSpec& spec : llm_setting_specs()) {
    out << "| " << code(std::string(spec.name)) << " | " << kind_text(spec.kind)
        << " | " << markdown_line(spec.default_value) << " | "
        << markdown_line(spec.help) << " |\n";
  }
  return out.str();
}

}  // namespace weft
