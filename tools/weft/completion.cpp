// Completion scripts: static texts, which need no weft while the user types.
#include <algorithm>
#include <sstream>

#include "tools/weft/command_tree.hpp"
#include "tools/weft/manual.hpp"

namespace weft {
namespace {

/// All commands, those of commands included, the outer first.
void flatten(const CommandText& command, std::vector<const CommandText*>& all) {
  all.push_back(&command);
  for (const CommandText& part : command.commands) flatten(part, all);
}

std::string last_word(const std::string& path) {
  return path.substr(path.rfind(' ') + 1);
}

std::string command_names(const CommandText& command) {
  std::string text;
  for (const CommandText& part : command.commands) {
    text += (text.empty() ? "" : " ") + last_word(part.path);
  }
  return text;
}

std::string option_names(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    if (option.is_positional) continue;
    for (const std::string& name : option.names) {
      text += (text.empty() ? "" : " ") + name;
    }
  }
  return text;
}

std::string words_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

/// In single quotes, as all three shells read them: zsh and bash alike; fish
/// takes a quoted quote after a backslash.
std::string quoted(const std::string& text, bool is_fish = false) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += is_fish ? "\\'" : "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

/// The part that bash and zsh share: `path` becomes the command in work, and
/// `values`, `commands` and `options` what may follow.
void write_cases(std::ostream& out,
                 const std::vector<const CommandText*>& all) {
  out << "  case \"$path $word\" in\n";
  for (const CommandText* command : all) {
    if (command->path == "weft") continue;
    out << "    " << quoted(command->path) << ") path=$path' '$word ;;\n";
  }
  out << "  esac\n";
}

void write_answers(std::ostream& out,
                   const std::vector<const CommandText*>& all) {
  out << "  case \"$path $previous\" in\n";
  for (const CommandText* command : all) {
    for (const OptionText& option : command->options) {
      if (option.is_positional || option.value.empty()) continue;
      std::string patterns;
      for (const std::string& name : option.names) {
        patterns +=
            (patterns.empty() ? "" : "|") + quoted(command->path + " " + name);
      }
      out << "    " << patterns
          << ") values=" << quoted(words_of(option.values))
          << "; takes_value=1 ;;\n";
    }
  }
  out << "  esac\n  case \"$path\" in\n";
  for (const CommandText* command : all) {
    out << "    " << quoted(command->path)
        << ") commands=" << quoted(command_names(*command))
        << "; options=" << quoted(option_names(*command)) << " ;;\n";
  }
  out << "  esac\n";
}

std::string bash_script(const std::vector<const CommandText*>& all) {
  std::ostringstream out;
  out << "# bash completion for weft, written by `weft completion bash`\n"
         "_weft() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} path=weft word\n"
         "  local previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local values='' commands='' options='' takes_value=''\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n";
  write_cases(out, all);
  out << "  done\n";
  write_answers(out, all);
  out << "  local words=$commands\n"
         "  [[ $current == -* ]] && words=$options\n"
         "  [[ -n $takes_value ]] && words=$values\n"
         "  if [[ -n $words ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "  else\n"
         "    compopt -o default\n"
         "    COMPREPLY=()\n"
         "  fi\n"
         "}\n"
         "complete -F _weft weft\n";
  return out.str();
}

std::string zsh_script(const std::vector<const CommandText*>& all) {
  std::ostringstream out;
  out << "#compdef weft\n"
         "# zsh completion for weft, written by `weft completion zsh`\n"
         "_weft() {\n"
         "  local current=$words[CURRENT] previous=$words[CURRENT-1]\n"
         "  local path=weft word\n"
         "  local values='' commands='' options='' takes_value=''\n"
         "  for word in ${words[2,CURRENT-1]}; do\n";
  write_cases(out, all);
  out << "  done\n";
  write_answers(out, all);
  out << "  local answer=$commands\n"
         "  [[ $current == -* ]] && answer=$options\n"
         "  [[ -n $takes_value ]] && answer=$values\n"
         "  if [[ -n $answer ]]; then\n"
         "    compadd -- ${=answer}\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "compdef _weft weft\n";
  return out.str();
}

/// When fish offers what a command has: its words were typed, in this order.
std::string fish_condition(const CommandText& command) {
  std::istringstream in(command.path);
  std::string word, text;
  in >> word;
  if (command.path == word) return "__fish_use_subcommand";
  while (in >> word) {
    text += (text.empty() ? "" : "; and ");
    text += "__fish_seen_subcommand_from " + word;
  }
  if (!command.commands.empty()) {
    text += "; and not __fish_seen_subcommand_from " + command_names(command);
  }
  return text;
}

std::string fish_script(const std::vector<const CommandText*>& all) {
  std::ostringstream out;
  out << "# fish completion for weft, written by `weft completion fish`\n";
  for (const CommandText* command : all) {
    const std::string begin =
        "complete -c weft -n " + quoted(fish_condition(*command), true);
    for (const CommandText& part : command->commands) {
      out << begin << " -f -a " << last_word(part.path) << " -d "
          << quoted(part.description, true) << '\n';
    }
    for (const OptionText& option : command->options) {
      if (option.is_positional) continue;
      out << begin;
      for (const std::string& name : option.names) {
        out << (name.starts_with("--") ? " -l " + name.substr(2)
                                       : " -s " + name.substr(1));
      }
      if (!option.values.empty()) {
        out << " -x -a " << quoted(words_of(option.values), true);
      } else if (!option.value.empty()) {
        out << " -r";
      }
      out << " -d " << quoted(option.description, true) << '\n';
    }
  }
  return out.str();
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const CommandText root = command_tree(app);
  std::vector<const CommandText*> all;
  flatten(root, all);
  if (shell == "bash") return bash_script(all);
  return shell == "zsh" ? zsh_script(all) : fish_script(all);
}

}  // namespace weft
