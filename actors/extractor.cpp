#include "actors/extractor.hpp"

#include <map>

#include "actors/device.hpp"
#include "actors/outcome.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

std::string cut_summary(const Plan& plan) {
  int externs = 0;
  for (const auto& [name, count] : extern_counts(plan)) externs += count;
  return std::to_string(plan.placements.size()) + " subgraphs (" +
         std::to_string(plan.subgraphs.size()) + " distinct), " +
         std::to_string(externs) + " extern calls";
}

}  // namespace

void Extractor::receive(const Address&, const Message& message,
                        Context& context) {
  if (const auto* start = std::get_if<RunStart>(&message)) {
    if (!run_) begin(*start, context);
    return;
  }
  const auto end = errands_.receive(message, context);
  if (!end) return;
  if (end->id == capture_) {
    captured(*end, context);
  } else {
    written(*end, context);
  }
}

void Extractor::begin(const RunStart& start, Context& context) {
  run_ = start;
  Capacities capacities{{{"cpu", start.machine.cores}, {"disk", 1}}};
  if (!start.machine.gpus.empty()) capacities.units["gpu"] = gpu_units;
  context.send(address::broker, capacities);
  context.send(address::user,
               Progress{"", "capture", "capturing " + start.problem_name});
  CaptureRequest request;
  request.problem_name = start.problem_name;
  request.problem = start.problem;
  request.wall_ms = start.options.capture_ms;
  // The port keeps the time limit; the lease is longer, so that it can answer.
  capture_ = errands_.start(address::capture, request,
                            {device_resource(start.machine), all_units, "",
                             start.options.capture_ms + 30'000},
                            context);
}

void Extractor::captured(const ErrandEnd& end, Context& context) {
  if (end.failure) return finish(end.failure, context);
  const auto& reply = std::get<CaptureReply>(*end.reply);
  const auto text = context.blobs().get(reply.graph);
  if (!text) return finish({"failed", text.error().message}, context);
  const auto graph = parse_graph(*text);
  if (!graph) return finish({"failed", graph.error().message}, context);

  const Target* target = find_target(run_->options.target);
  if (!target) {
    return finish({"wrong_input", "no target '" + run_->options.target + "'"},
                  context);
  }

  CutOptions cut;
  cut.no_extern = run_->options.no_extern;
  cut.precision = run_->options.precision;
  const Plan plan = partition(*graph, *target, cut);
  plan_ = context.blobs().put(plan_to_json(plan));
  context.send(
      address::user,
      Progress{"", "extract",
               cut_summary(plan) +
                   (reply.kept ? ", captured by an earlier run" : "")});
  WriteFilesRequest files;
  files.files = {{"subgraphs.json", context.blobs().put(subgraphs_json(plan))}};
  errands_.start(address::files, files, {"disk", 1, "", 60'000}, context);
}

void Extractor::written(const ErrandEnd& end, Context& context) {
  if (end.failure) return finish(end.failure, context);
  context.send(address::dispatcher, Dispatch{plan_, *run_});
}

void Extractor::finish(const Failure& failure, Context& context) {
  context.send(address::user,
               RunFinished{exit_code_of(failure), failure.message});
}

}  // namespace weft
