// The tables of docs/reference/settings.md.
#include <algorithm>
#include <sstream>

#include "config/folder_settings.hpp"
#include "config/llm_settings.hpp"
#include "messages/shown_text.hpp"
#include "tools/weft/command_tree.hpp"
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

/// "seeds" is the setting of the flag --seeds.
const OptionText& option_of(const CommandText& command,
                            const std::string& setting) {
  std::string flag = "--" + setting;
  std::ranges::replace(flag, '_', '-');
  return *std::ranges::find_if(command.options, [&](const OptionText& option) {
    return std::ranges::find(option.names, flag) != option.names.end();
  });
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

std::string settings_text(const CommandText& main, const CLI::App& run) {
  std::ostringstream out;
  out << "## Settings of a run\n\nSection `[run]`: the flags of [`weft "
         "run`](command-line.md#weft-run), which says what they mean.\n\n"
         "| setting | default | folder |\n|---|---|---|\n";
  for (const std::string& name : setting_names(run)) {
    const OptionText& option = option_of(main, name);
    out << "| " << code(name) << " | "
        << (option.value.empty() ? "false" : option.default_value) << " | "
        << rule_of_folder("run." + name) << " |\n";
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
