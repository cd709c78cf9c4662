#include "tools/weft/manual.hpp"

#include <algorithm>
#include <sstream>

#include "compiler/lowering/operators/table.hpp"
#include "messages/joined.hpp"
#include "messages/shown_text.hpp"
#include "tools/weft/command_tree.hpp"
#include "tools/weft/help.hpp"

namespace weft {
namespace {

/// The command whose only options are those that all commands take.
constexpr std::string_view kPlainCommand = "weft keygen";
/// The command whose options others repeat.
constexpr std::string_view kMainCommand = "weft run";

bool has_same(const std::vector<OptionText>& options, const OptionText& one) {
  return std::ranges::any_of(options, [&](const OptionText& other) {
    return !other.is_positional && other.names == one.names &&
           other.description == one.description;
  });
}

const CommandText& command_at(const CommandText& root, std::string_view path) {
  return *std::ranges::find(root.commands, path, &CommandText::path);
}

/// "-q, --quiet", "--out TEXT", "--device INT=0", "--target {cpu,auto}=cpu", or
/// the positional "[problem]".
std::string heading_of(const OptionText& option) {
  std::string text = joined(option.names, ", ");
  if (!option.values.empty()) {
    text += " {" + joined(option.values, ",") + "}";
  } else if (!option.is_positional && !option.value.empty()) {
    text += " " + option.value;
  }
  if (!option.default_value.empty()) text += "=" + option.default_value;
  return option.is_positional && !option.is_required ? "[" + text + "]" : text;
}

std::string usage_of(const CommandText& command) {
  std::string text = command.path + " [OPTIONS]";
  if (!command.commands.empty()) text += " COMMAND";
  for (const OptionText& option : command.options) {
    if (!option.is_positional) continue;
    const std::string& name = option.names.front();
    text += option.is_required ? " " + name : " [" + name + "]";
  }
  return text;
}

/// The options of a command without those of all commands.
struct OwnOptions {
  std::vector<OptionText> own;
  std::vector<std::string> of_run;       ///< names; `weft run` has these, too
  std::vector<std::string> only_of_run;  ///< `weft run` alone has these
};

/// Names of options that only `weft run` has.
std::vector<std::string> lacking(const CommandText& main,
                                 const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : main.options) {
    const bool is_here =
        option.is_positional ||
        std::ranges::find(command.options, option.names, &OptionText::names) !=
            command.options.end();
    if (!is_here) names.push_back(option.names.back());
  }
  return names;
}

OwnOptions own_options(const CommandText& root, const CommandText& command) {
  const auto& common = command_at(root, kPlainCommand).options;
  const CommandText& main = command_at(root, kMainCommand);
  OwnOptions result;
  result.only_of_run = lacking(main, command);
  for (const OptionText& option : command.options) {
    if (has_same(common, option)) continue;
    if (command.path != kMainCommand && has_same(main.options, option)) {
      result.of_run.push_back(option.names.back());
    } else {
      result.own.push_back(option);
    }
  }
  return result;
}

/// Both formats print the same parts in the same order.
class Page {
 public:
  virtual ~Page() = default;
  virtual void begin(const CommandText& root) = 0;
  virtual void group(std::string_view title) = 0;
  virtual void command(const CommandText& command) = 0;
  virtual void options(const std::vector<OptionText>& options) = 0;
  /// `text` lists the options that `weft run` has, too; not empty.
  virtual void options_of_run(const std::string& text) = 0;
  virtual std::string code(const std::string& text) = 0;

  std::ostringstream out;
};

class MarkdownPage : public Page {
 public:
  void begin(const CommandText& root) override {
    out << "# Command line\n\n<!-- Written by `weft manual markdown`; do not "
           "edit. -->\n\n"
        << root.description
        << ". An option's values are in braces, its default after `=`.\n";
  }
  void group(std::string_view title) override {
    out << "\n## " << title << '\n';
  }
  void command(const CommandText& command) override {
    out << "\n### " << command.path << "\n\n" << command.description << ".\n";
  }
  void options(const std::vector<OptionText>& options) override {
    if (options.empty()) return;
    out << "\n| option | meaning |\n|---|---|\n";
    for (const OptionText& option : options) {
      out << "| `" << heading_of(option) << "` | "
          << markdown_line(option.description) << " |\n";
    }
  }
  void options_of_run(const std::string& text) override {
    out << '\n' << text << ".\n";
  }
  std::string code(const std::string& text) override {
    return "`" + text + "`";
  }
};

/// A hyphen of a program's text is no typographer's.
std::string troff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      if (escaped.empty() && (c == '.' || c == '\'')) escaped += "\\&";
      escaped += c;
    }
  }
  return escaped;
}

class ManPage : public Page {
 public:
  void begin(const CommandText& root) override {
    const std::string what =
        root.description.substr(root.description.find(' ') + 1);
    out << ".TH WEFT 1\n.SH NAME\nweft \\- " << troff(what)
        << "\n.SH SYNOPSIS\n.B weft\n.I COMMAND\n[OPTIONS]\n";
  }
  void group(std::string_view title) override {
    out << ".SH " << troff(std::string(title)) << '\n';
  }
  void command(const CommandText& command) override {
    out << ".SS " << troff(usage_of(command)) << '\n'
        << troff(command.description) << ".\n";
  }
  void options(const std::vector<OptionText>& options) override {
    for (const OptionText& option : options) {
      out << ".TP\n.B " << troff(heading_of(option)) << '\n'
          << troff(option.description) << '\n';
    }
  }
  void options_of_run(const std::string& text) override {
    out << ".PP\n" << troff(text) << ".\n";
  }
  std::string code(const std::string& text) override { return text; }
};

void write_command(Page& page, const CommandText& root,
                   const CommandText& command) {
  page.command(command);
  const OwnOptions options = own_options(root, command);
  page.options(options.own);
  if (!options.of_run.empty()) {
    const bool has_most = options.of_run.size() > options.only_of_run.size();
    std::vector<std::string> names =
        has_most ? options.only_of_run : options.of_run;
    for (std::string& name : names) name = page.code(name);
    page.options_of_run((has_most ? "Also all options of " : "Also, as for ") +
                        page.code(std::string(kMainCommand)) +
                        (has_most ? " except " : ": ") + joined(names, ", "));
  }
  for (const CommandText& part : command.commands) {
    write_command(page, root, part);
  }
}

void write_manual(Page& page, const CommandText& root) {
  page.begin(root);
  page.group("Options of all commands");
  std::vector<OptionText> common = root.options;
  for (const OptionText& option : command_at(root, kPlainCommand).options) {
    if (!option.is_positional && !has_same(root.options, option)) {
      common.push_back(option);
    }
  }
  page.options(common);
  for (const CommandGroup& group : command_groups()) {
    page.group(group.title);
    for (const std::string_view name : group.commands) {
      write_command(page, root, command_at(root, "weft " + std::string(name)));
    }
  }
}

/// A kind with more operators has several rows.
constexpr std::size_t kOperatorsOfRow = 25;

/// The operators that compiler/lowering/operators/ has rules for.
std::string operators_text() {
  std::ostringstream out;
  out << "# Operators\n\n<!-- Written by `weft manual operators`; do not edit. "
         "-->\n\nThe compiler has code for these ATen operators. A name "
         "without "
         "an overload stands for all overloads.\nMatrix products, convolutions "
         "and attention are generated for GPU targets only. An operator that "
         "is "
         "not listed stays PyTorch's.\nThe same holds for a call with a dtype, "
         "a layout or an argument that a rule does not know.\n\n| kind | "
         "operators |\n|---|---|\n";
  for (const RuleGroup& group : rule_groups()) {
    RuleTable rules;
    group.add(rules);
    std::vector<std::string> names;
    const auto write_row = [&] {
      out << "| " << group.title << " | " << joined(names, ", ") << " |\n";
      names.clear();
    };
    for (const auto& [name, rule] : rules) {
      if (names.size() == kOperatorsOfRow) write_row();
      names.push_back("`" + name + "`");
    }
    write_row();
  }
  return out.str();
}

}  // namespace

std::string manual_text(const CLI::App& app, const std::string& format) {
  const CommandText root = command_tree(app);
  if (format == "man") {
    ManPage page;
    write_manual(page, root);
    return page.out.str();
  }
  if (format == "operators") return operators_text();
  if (format == "settings") {
    return settings_text(*app.get_subcommand("run"));
  }
  MarkdownPage page;
  write_manual(page, root);
  return page.out.str();
}

}  // namespace weft
