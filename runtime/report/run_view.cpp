#include "runtime/report/run_view.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "messages/parse_json.hpp"
#include "runtime/host/effect_ledger.hpp"
#include "runtime/report/calls_view.hpp"
#include "runtime/report/command_text.hpp"
#include "runtime/report/model_view.hpp"
#include "runtime/report/problems.hpp"
#include "runtime/report/subgraphs_view.hpp"
#include "runtime/report/timeline.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kBoxesMax = 1'500;

/// Gathers a run in one pass over its journal.
class Gathering {
 public:
  Gathering(const Journal& journal, const ViewLimits& limits)
      : journal_(journal),
        timeline_(limits.spans_max),
        calls_(limits.calls_max),
        subgraphs_(limits.candidates_max) {}

  void take(const Envelope& envelope) {
    ++events_;
    if (envelope.dst == stale_address) ++stale_;
    if (events_ == 1) begun_us_ = envelope.at_us;
    last_us_ = envelope.at_us;
    const auto message = decode(envelope.type, envelope.body);
    if (!message) {
      ++unknown_;
      return;
    }
    timeline_.take(envelope, *message);
    calls_.take(envelope, *message);
    subgraphs_.take(envelope, *message, calls_);
    take_run(envelope, *message);
  }

  json to_json() const;

 private:
  void take_run(const Envelope& envelope, const Message& message);
  void take_plan(const std::string& hash);
  void take_file(const FileToWrite& file);
  json environment() const;
  json left_out() const;

  const Journal& journal_;
  Timeline timeline_;
  CallsView calls_;
  SubgraphsView subgraphs_;
  std::optional<RunStart> start_;
  json start_fields_;
  json finished_;
  json probe_;
  json composed_ = json::array();  // checks and timings of whole modules
  json result_;                    // result.json, when the run wrote it
  json graph_;
  json files_ = json::array();
  json capture_;
  std::uint64_t events_ = 0;
  std::uint64_t stale_ = 0;
  std::uint64_t unknown_ = 0;
  std::int64_t begun_us_ = 0;
  std::int64_t last_us_ = 0;
};

void Gathering::take_plan(const std::string& hash) {
  const auto text = journal_.get_blob(hash);
  if (!text) return;
  const auto plan = parse_plan(*text);
  if (!plan) return;
  subgraphs_.take_plan(*plan);
  graph_ = model_view(*plan, kBoxesMax);
}

void Gathering::take_file(const FileToWrite& file) {
  files_.push_back({{"path", file.path}, {"text", file.blob}});
  if (file.path != "result.json") return;
  const auto text = journal_.get_blob(file.blob);
  if (!text) return;
  json result = parse_json(*text);
  if (result.is_object()) result_ = std::move(result);
}

void Gathering::take_run(const Envelope& envelope, const Message& message) {
  if (const auto* m = std::get_if<RunStart>(&message)) {
    start_ = *m;
    start_fields_ = fields_of(envelope);
  } else if (const auto* m = std::get_if<CaptureReply>(&message)) {
    capture_ = {{"failure", m->failure.message},
                {"wall_ms", m->wall_ms},
                {"from_library", m->from_library}};
  } else if (const auto* m = std::get_if<Dispatch>(&message)) {
    take_plan(m->plan);
  } else if (std::holds_alternative<ProbeReply>(message)) {
    probe_ = fields_of(envelope);
  } else if (const auto* m = std::get_if<WriteFilesRequest>(&message)) {
    for (const FileToWrite& file : m->files) take_file(file);
  } else if (const auto* m = std::get_if<RunFinished>(&message)) {
    finished_ = {{"exit_code", m->exit_code}, {"summary", m->summary}};
  } else if (envelope.dst == "composer" &&
             (std::holds_alternative<CheckReply>(message) ||
              std::holds_alternative<TimeReply>(message))) {
    composed_.push_back({{"type", envelope.type},
                         {"seq", envelope.seq},
                         {"reply", fields_of(envelope)}});
  }
}

json Gathering::environment() const {
  if (!start_) return nullptr;
  return {{"machine", start_fields_.value("machine", json())},
          {"options", start_fields_.value("options", json())},
          {"weft", start_->weft_version},
          {"decisions", start_->decisions},
          {"vocabulary", start_->vocabulary},
          {"probe", probe_},
          {"command", command_text(*start_)}};
}

json Gathering::left_out() const {
  return {{"candidates", subgraphs_.left_out()},
          {"calls", calls_.left_out()},
          {"unknown_events", unknown_}};
}

json Gathering::to_json() const {
  json view = {{"format", 1},
               {"problem", start_ ? json(start_->problem_name) : json()},
               {"problem_text", start_ ? start_->problem : ""},
               {"target", start_ ? json(start_->options.target) : json()},
               {"begun_us", begun_us_},
               {"last_us", last_us_},
               {"finished", finished_},
               {"events", events_},
               {"stale", stale_},
               {"result", result_},
               {"composed", composed_},
               {"capture", capture_},
               {"environment", environment()},
               {"graph", graph_},
               {"subgraphs", subgraphs_.subgraphs()},
               {"calls", calls_.calls()},
               {"spent", calls_.spent()},
               {"files", files_},
               {"timeline", timeline_.to_json(begun_us_, last_us_)},
               {"left_out", left_out()}};
  view["problems"] = problems_of(view);
  return view;
}

}  // namespace

Result<json> run_view(const Journal& journal, const ViewLimits& limits) {
  Gathering gathering(journal, limits);
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    gathering.take(envelope);
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return gathering.to_json();
}

}  // namespace weft
