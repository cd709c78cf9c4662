#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/export/exports.hpp"

namespace weft {
namespace {

using nlohmann::json;

std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text;
}

/// One family of samples after the other, as the format wants it.
class Families {
 public:
  explicit Families(std::string problem) : problem_(escaped(problem)) {}

  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name +
             " " + type + "\n";
  }
  void sample(double value, const char* label = nullptr,
              const std::string& word = "") {
    text_ += name_ + "{problem=\"" + problem_ + "\"";
    if (label) text_ += std::string(",") + label + "=\"" + escaped(word) + "\"";
    char number[40];
    std::snprintf(number, sizeof number, "} %.17g\n", value);
    text_ += number;
  }
  std::string text() const { return text_; }

 private:
  std::string problem_;
  std::string name_;
  std::string text_;
};

std::map<std::string, int> counts_of(const json& list, const char* field,
                                     const char* otherwise) {
  std::map<std::string, int> counts;
  for (const json& entry : list) {
    const json& value = entry[field];
    ++counts[value.is_string() ? value.get<std::string>() : otherwise];
  }
  return counts;
}

void add_work(const json& view, Families& families) {
  families.begin("weft_subgraphs", "gauge", "Subgraphs by their outcome.");
  for (const auto& [word, n] :
       counts_of(view["subgraphs"], "outcome", "open")) {
    families.sample(n, "outcome", word);
  }
  std::map<std::string, int> states;
  for (const json& subgraph : view["subgraphs"]) {
    for (const auto& [word, n] :
         counts_of(subgraph["candidates"], "state", "proposed")) {
      states[word] += n;
    }
  }
  families.begin("weft_candidates", "gauge", "Candidates by their verdict.");
  for (const auto& [word, n] : states) families.sample(n, "state", word);
  families.begin("weft_work_seconds_total", "counter",
                 "Time of ports' work, and of waits, by kind.");
  for (const auto& [kind, sum] : view["timeline"]["kinds"].items()) {
    families.sample(sum["us"].get<double>() / 1e6, "kind", kind);
  }
}

void add_calls(const json& view, Families& families) {
  const json& spent = view["spent"];
  families.begin("weft_llm_calls_total", "counter",
                 "Calls of language models by their end.");
  const double failed = spent["failed"].get<double>();
  families.sample(spent["answered"].get<double>() - failed, "end", "answered");
  families.sample(failed, "end", "failed");
  families.begin("weft_llm_tokens_total", "counter",
                 "Tokens of calls of language models.");
  families.sample(spent["input_tokens"].get<double>(), "type", "input");
  families.sample(spent["output_tokens"].get<double>(), "type", "output");
  families.begin("weft_llm_cost_usd_total", "counter",
                 "What calls of language models cost.");
  families.sample(spent["micro_usd"].get<double>() / 1e6);
}

}  // namespace

std::string metrics_text(const json& view) {
  Families families(
      view["problem"].is_string() ? view["problem"].get<std::string>() : "");
  families.begin("weft_events_total", "counter", "Events in the journal.");
  families.sample(view["events"].get<double>());
  families.begin("weft_run_seconds", "gauge",
                 "From the run's first event to its last.");
  families.sample(
      (view["last_us"].get<double>() - view["begun_us"].get<double>()) / 1e6);
  families.begin("weft_run_finished", "gauge", "1 when the run has ended.");
  families.sample(view["finished"].is_null() ? 0 : 1);
  if (view["finished"].is_object()) {
    families.begin("weft_run_exit_code", "gauge", "How the run ended.");
    families.sample(view["finished"]["exit_code"].get<double>());
  }
  add_work(view, families);
  add_calls(view, families);
  return families.text();
}

}  // namespace weft
