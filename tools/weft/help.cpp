#include "tools/weft/help.hpp"

#include <array>
#include <memory>
#include <sstream>
#include <string>

namespace weft {
namespace {

using std::string_view;

constexpr std::array<string_view, 7> kUse = {
    "run", "eval", "bench", "resume", "doctor", "config", "llm"};
constexpr std::array<string_view, 7> kInspect = {
    "show", "explain", "ui", "export", "replay", "diff", "fork"};
constexpr std::array<string_view, 4> kMachines = {"head", "node", "cluster",
                                                  "keygen"};
constexpr std::array<string_view, 5> kDevelop = {"choices", "tune", "simulate",
                                                 "completion", "manual"};
constexpr std::array<CommandGroup, 4> kGroups = {
    {{"Use", kUse},
     {"Inspect", kInspect},
     {"Machines", kMachines},
     {"Tune and develop", kDevelop}}};

/// The first sentence of a description, which may have several.
std::string summary_of(const CLI::App& command) {
  const std::string text = command.get_description();
  return text.substr(0, text.find(". "));
}

class GroupedHelp : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    if (app->get_parent() != nullptr) {
      return CLI::Formatter::make_help(app, name, mode);
    }
    std::ostringstream out;
    out << app->get_description() << "\nUsage: weft COMMAND [OPTIONS]\n";
    for (const CommandGroup& group : kGroups) {
      out << group.title << ":\n";
      for (const string_view command : group.commands) {
        constexpr std::size_t kNameWidth = 12;
        std::string line = "  " + std::string(command);
        line.resize(2 + kNameWidth, ' ');
        out << line << summary_of(*app->get_subcommand(std::string(command)))
            << '\n';
      }
    }
    out << "'weft COMMAND --help' lists its options; 'weft --version' names "
           "this "
           "version\n";
    return out.str();
  }
};

}  // namespace

std::span<const CommandGroup> command_groups() { return kGroups; }

void set_grouped_help(CLI::App& app) {
  app.formatter(std::make_shared<GroupedHelp>());
}

const char* first_steps() {
  return "weft turns a PyTorch model into verified, fast kernels. Begin "
         "with\n"
         "  weft doctor                         check this machine\n"
         "  weft run PROBLEM.py                 search for kernels (see "
         "examples/)\n"
         "  weft eval REFERENCE.py KERNEL.py    judge a kernel that you have\n"
         "  weft --help                         all commands\n"
         "In Python: torch.compile(model, backend=\"weft\")\n";
}

}  // namespace weft
