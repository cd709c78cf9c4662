#include "runtime/ui/metrics.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/llm/utf8.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr double kMicro = 1e-6;

struct Family {
  const char* name;
  const char* type;
  const char* help;
};

constexpr Family kFamilies[] = {
    {"weft_run_events", "gauge", "Events in the run's journal."},
    {"weft_run_last_event_timestamp_seconds", "gauge",
     "When the last event was journaled."},
    {"weft_run_finished", "gauge", "1 once the run has ended."},
    {"weft_run_exit_code", "gauge", "Of a run that has ended."},
    {"weft_subgraphs_started", "gauge", "Subgraphs that an agent was given."},
    {"weft_subgraphs_done", "gauge", "Subgraphs by their outcome."},
    {"weft_verdicts_total", "counter", "Judged candidates by verdict."},
    {"weft_stale_replies_total", "counter", "Second replies to a request."},
    {"weft_requests_open", "gauge", "Requests to ports without a reply."},
    {"weft_request_seconds", "summary", "From a request to its reply."},
    {"weft_llm_tokens_total", "counter", "Tokens of language models."},
    {"weft_llm_cost_usd_total", "counter", "What language models cost."},
    {"weft_lease_capacity_units", "gauge", "Units that a place offers."},
    {"weft_lease_used_units", "gauge", "Units that are leased."},
    {"weft_lease_queue_length", "gauge", "Requests that wait for a lease."},
};

std::string label(const char* name, std::string_view value) {
  return std::string(name) + "=\"" + escaped_label(value) + "\"";
}

}  // namespace

std::string escaped_label(std::string_view text) {
  std::string out;
  // Of other bytes in one folder's name Prometheus would take nothing at all.
  for (const char c : repaired_utf8(text)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

void Metrics::sample(const char* name, const std::string& labels, double value,
                     const char* end) {
  char number[32];
  std::snprintf(number, sizeof number, "%.17g", value);
  samples_[name] +=
      std::string(name) + end + "{" + labels + "} " + number + "\n";
}

template <class Map>
void Metrics::sample_all(const char* name, const std::string& labels,
                         const char* label_name, const Map& map) {
  for (const auto& [key, value] : map) {
    sample(name, labels + "," + label(label_name, key),
           static_cast<double>(value));
  }
}

void Metrics::add(RunIndex::Run& run) {
  const std::string labels =
      label("run", run.entry.folder.filename().string()) + "," +
      label("id", run.entry.id);
  const RunCounters& run_counters = run.run_counters;
  sample("weft_run_events", labels, static_cast<double>(run_counters.events));
  sample("weft_run_last_event_timestamp_seconds", labels,
         static_cast<double>(run_counters.last_us) * kMicro);
  sample("weft_run_finished", labels, run_counters.finished ? 1 : 0);
  if (run_counters.finished) {
    sample("weft_run_exit_code", labels, run_counters.finished->exit_code);
  }
  sample("weft_subgraphs_started", labels,
         static_cast<double>(run_counters.subgraphs));
  sample_all("weft_subgraphs_done", labels, "outcome", run_counters.outcomes);
  sample_all("weft_verdicts_total", labels, "verdict", run_counters.verdicts);
  sample("weft_stale_replies_total", labels,
         static_cast<double>(run_counters.stale));
  sample_all("weft_requests_open", labels, "port", run_counters.open);
  for (const auto& [port, all] : run_counters.answers) {
    const std::string both = labels + "," + label("port", port);
    sample("weft_request_seconds", both,
           static_cast<double>(all.sum_us) * kMicro, "_sum");
    sample("weft_request_seconds", both, static_cast<double>(all.count),
           "_count");
  }
  sample_all("weft_llm_tokens_total", labels, "kind", run_counters.tokens);
  sample("weft_llm_cost_usd_total", labels,
         static_cast<double>(run_counters.micro_usd) * kMicro);
  if (run_counters.events > 0) add_broker(run, labels);
}

/// Pools and queues; none before the broker was told of any.
void Metrics::add_broker(RunIndex::Run& run, const std::string& labels) {
  const auto broker =
      run.journal_reader.state(address::broker, run.run_counters.events);
  if (!broker) return;
  const json& state = (*broker)["state"];
  for (const json& pool : state.at("pools")) {
    const std::string of =
        labels + "," +
        label("resource", pool.at("resource").get<std::string>()) + "," +
        label("location", pool.at("location").get<std::string>());
    sample("weft_lease_capacity_units", of, pool.at("capacity").get<double>());
    sample("weft_lease_used_units", of, pool.at("used").get<double>());
  }
  std::map<std::string, int> queues;
  for (const json& request : state.at("queues")) {
    ++queues[request.at("resource").get<std::string>()];
  }
  sample_all("weft_lease_queue_length", labels, "resource", queues);
}

std::string Metrics::text() const {
  std::string text;
  for (const Family& family : kFamilies) {
    const auto samples = samples_.find(family.name);
    if (samples == samples_.end()) continue;
    const std::string name = family.name;
    text += "# HELP " + name + " " + family.help + "\n# TYPE " + name + " " +
            family.type + "\n" + samples->second;
  }
  return text;
}

}  // namespace weft
