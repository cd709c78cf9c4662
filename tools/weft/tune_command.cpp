#include "tools/weft/tune_command.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "compiler/choices/choices.hpp"
#include "messages/formatted.hpp"
#include "messages/parse_json.hpp"
#include "messages/vocabulary.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/run_python_driver.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Sweep {
  std::string name;
  std::vector<double> values;  ///< each once, as given
};

/// All of them are checked before any time is spent on the first.
Result<Sweep> parse_sweep(const std::string& text) {
  const auto equals = text.find('=');
  Sweep sweep{text.substr(0, equals), {}};
  std::istringstream values(equals == text.npos ? "" : text.substr(equals + 1));
  for (std::string value; std::getline(values, value, ',');) {
    const auto choice = parse_choice(sweep.name + "=" + value);
    if (!choice) return std::unexpected(choice.error());
    if (std::ranges::find(sweep.values, choice->second) == sweep.values.end()) {
      sweep.values.push_back(choice->second);
    }
  }
  if (!sweep.values.empty()) return sweep;
  return fail(ErrorCode::wrong_input,
              "'" + text +
                  "' is nothing to try: it is NAME=VALUE,VALUE,… ('weft "
                  "choices' lists names)");
}

/// What is known of one run.
struct Trial {
  std::string value;  ///< "default", "8"
  int code = 0;
  std::set<std::string> texts;  ///< blobs of the compiler's kernels
  json result;                  ///< result.json; null: it came to none
};

std::set<std::string> compiled_texts(const fs::path& folder) {
  std::set<std::string> texts;
  const auto journal = Journal::open_read_only(folder / "journal.db");
  if (!journal) return texts;
  // What cannot be read is no text; the run itself has said why.
  (void)journal->read(1, [&](const Envelope& envelope) {
    if (envelope.type != SeedsReply::name) return true;
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return true;
    for (const Seed& seed : std::get<SeedsReply>(*message).seeds) {
      if (seed.origin == "compiler") texts.insert(seed.source);
    }
    return true;
  });
  return texts;
}

Trial run_one(const CommonFlags& common, RunFlags flags, const fs::path& out,
              const std::string& value) {
  flags.out = out / value;
  CommonFlags quiet = common;
  quiet.quiet = !common.verbose;
  quiet.json = false;
  Trial trial{value, run_command(quiet, flags), compiled_texts(*flags.out), {}};
  const auto text = read_file(*flags.out / "result.json");
  if (text) trial.result = parse_json(*text);
  return trial;
}

/// A number somewhere in the results; 0: there is none.
double number_at(const Trial& trial, const char* pointer) {
  const json::json_pointer at(pointer);
  if (!trial.result.contains(at) || !trial.result[at].is_number()) return 0;
  return trial.result[at].get<double>();
}

std::string shown(double value, const char* format) {
  return value > 0 ? formatted(format, value) : "-";
}

/// Kernels that the default does not have, and those that it has and this has
/// not.
std::size_t texts_changed(const Trial& trial, const Trial& usual) {
  std::vector<std::string> changed;
  std::ranges::set_symmetric_difference(trial.texts, usual.texts,
                                        std::back_inserter(changed));
  return changed.size();
}

void print(const CommonFlags& common, const Sweep& sweep, const Trial& trial,
           const Trial& usual) {
  const double median = number_at(trial, "/timing/candidate/median_us");
  const double eager = number_at(trial, "/timing/over_eager/ratio");
  const std::size_t changed = texts_changed(trial, usual);
  if (common.json) {
    const json line = {{"choice", sweep.name},    {"value", trial.value},
                       {"exit_code", trial.code}, {"median_us", median},
                       {"over_eager", eager},     {"texts_changed", changed},
                       {"result", trial.result}};
    print_line(line);
    return;
  }
  const std::string times =
      shown(number_at(trial, "/timing/candidate/p10_us"), "%.1f") + ".." +
      shown(number_at(trial, "/timing/candidate/p90_us"), "%.1f");
  std::printf("%-12s %-12s %12s %20s %10s  %zu\n", trial.value.c_str(),
              trial.code == 0 ? "verified" : "not verified",
              shown(median, "%.1f").c_str(), times.c_str(),
              shown(eager, "%.2fx").c_str(), changed);
}

}  // namespace

int tune_command(const CommonFlags& common, const TuneFlags& flags) {
  if (const auto valid = check_one_mode(flags.run.options); !valid) {
    return report_error(common, valid.error());
  }
  const auto sweep = parse_sweep(flags.sweep);
  if (!sweep) return report_error(common, sweep.error());
  const fs::path out = flags.run.out.value_or(
      default_run_folder("tune-" + flags.run.problem.filename().string()));
  std::vector<Trial> trials;
  trials.push_back(run_one(common, flags.run, out, "default"));
  for (const double value : sweep->values) {
    if (trials.back().code == 130) return 130;
    RunFlags run = flags.run;
    run.options.choices[sweep->name] = value;
    trials.push_back(run_one(common, run, out, choice_text(value)));
  }
  if (trials.back().code == 130) return 130;
  if (!common.json) {
    std::printf("%s (runs are below %s)\n%-12s %-12s %12s %20s %10s  %s\n",
                sweep->name.c_str(), out.c_str(), "value", "", "median us",
                "p10..p90 us", "over eager", "texts changed");
  }
  int worst = 0;
  for (const Trial& trial : trials) {
    print(common, *sweep, trial, trials.front());
    worst = std::max(worst, trial.code);
  }
  return worst;
}

}  // namespace weft
