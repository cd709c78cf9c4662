#include "runtime/debug/explanation.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "actors/extractor.hpp"
#include "actors/outcome.hpp"
#include "actors/seed_generator.hpp"
#include "messages/formatted.hpp"
#include "messages/parse_json.hpp"
#include "runtime/journal/read_only_blobs.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// The parts of a journal that an explanation needs.
struct Recorded {
  std::optional<RunStart> start;
  std::optional<Dispatch> dispatch;
  std::uint64_t dispatch_seq = 0;
  std::optional<RunFinished> finished;
  std::map<std::string, SubgraphDone> done;
  std::string result;  ///< blob of the last result.json
};

Result<Recorded> read(const Journal& journal) {
  Recorded found;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return true;
    if (const auto* m = std::get_if<RunStart>(&*message)) found.start = *m;
    if (const auto* m = std::get_if<RunFinished>(&*message)) {
      found.finished = *m;
    }
    if (const auto* m = std::get_if<SubgraphDone>(&*message)) {
      found.done[m->subgraph] = *m;
    }
    if (const auto* m = std::get_if<Dispatch>(&*message);
        m && !found.dispatch) {
      found.dispatch = *m;
      found.dispatch_seq = envelope.seq;
    }
    if (const auto* m = std::get_if<WriteFilesRequest>(&*message)) {
      for (const FileToWrite& file : m->files) {
        if (file.path == "result.json") found.result = file.blob;
      }
    }
    return true;
  });
  if (!read) return std::unexpected(read.error());
  if (!found.start) {
    return fail(ErrorCode::wrong_input, "the journal has no first event");
  }
  if (!found.dispatch) {
    return fail(ErrorCode::wrong_input,
                "the run did not partition its model" +
                    (found.finished ? ": " + found.finished->summary
                                    : std::string(" yet")));
  }
  return found;
}

/// The extractor's partition, with its reasons: the role decides once more.
Result<Plan> replayed_plan(const Journal& journal, std::uint64_t until,
                           const Replay::MakeRole& make_role) {
  ReadOnlyBlobs blobs(journal);
  Replay replay(
      blobs,
      [&](const Address& address) {
        return address == address::extractor ? make_role(address) : nullptr;
      },
      Replay::ContentRule::recorded);
  bool fits = true;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    if (envelope.seq >= until) return false;
    fits = replay.feed(envelope);
    return fits;
  });
  if (!read) return std::unexpected(read.error());
  if (!fits && replay.error()) return std::unexpected(*replay.error());
  const auto* extractor =
      dynamic_cast<const Extractor*>(replay.find_role(address::extractor));
  if (!fits || !extractor) {
    return fail(ErrorCode::failed,
                "this version of weft decides differently from the version "
                "that made the run" +
                    (fits ? "" : ": " + to_string(*replay.divergence())));
  }
  return extractor->cut();
}

ExplainedPartition partition_of(const Plan& plan) {
  ExplainedPartition partition{
      plan.label, plan.fusion_reasons, plan.call_reasons, {}};
  for (const Node& node : plan.model.nodes) {
    if (node.kind == NodeKind::call) {
      partition.operators[node.name] = node.target;
    }
  }
  return partition;
}

void take_outcome(const SubgraphDone& done, const json& result,
                  ExplainedSubgraph& subgraph) {
  const Timing& timing = done.best.timing;
  subgraph.reason = done.outcome;
  if (done.best.timed && timing.over_eager.ratio > 0) {
    subgraph.reason +=
        formatted(": %.2f times as fast as eager (%.1f us, eager %.1f us)",
                  timing.over_eager.ratio, timing.candidate.median_us,
                  timing.eager.median_us);
  }
  if (!done.reason.empty()) subgraph.reason += ": " + done.reason;
  const Seed& seed = done.best.seed;
  subgraph.best = {seed.target, seed.variant};
  const std::string kernel =
      seed.id + " (" + seed.target + ", " + seed.variant + ")";
  for (const json& entry : result.value("subgraphs", json::array())) {
    if (!entry.is_object() || entry.value("id", "") != done.subgraph) continue;
    const bool is_used = entry.value("ours", false);
    subgraph.implementation = is_used ? "kernel " + kernel : "PyTorch";
    if (!is_used && has_won(done)) {
      subgraph.reason += "; not in the module (see the notes on it)";
    }
    return;
  }
  subgraph.implementation =
      has_won(done) ? "kernel " + kernel + ", no module yet" : "PyTorch";
}

ExplainedSubgraph subgraph_of(const Subgraph& subgraph, const RunStart& run) {
  ExplainedSubgraph explained{subgraph.id, subgraph.type, {}, {}, {}};
  for (const Node& node : subgraph.graph.nodes) {
    if (node.kind == NodeKind::call) explained.calls.push_back(node.target);
  }
  const auto sources = compiler_sources(subgraph, run.options, run.machine);
  if (!sources) {
    explained.failure = sources.error().message;
    return explained;
  }
  for (const auto& [target, kernel] : *sources) {
    explained.sources.push_back(
        {std::string(target), kernel.variant, kernel.reasons});
  }
  return explained;
}

std::string pair_text(const ExplainedPartition& partition,
                      const FusionReason& pair) {
  const auto call = [&](const std::string& name) {
    const auto found = partition.operators.find(name);
    return found == partition.operators.end() || found->second == "getitem"
               ? name
               : name + " (" + found->second + ")";
  };
  return "  " + call(pair.producer) + " -> " + call(pair.consumer) +
         (pair.is_fused ? ": fused" : ": not fused") +
         (pair.reason.empty() ? "" : ", because " + pair.reason) + "\n";
}

std::string partition_text(const ExplainedPartition& partition) {
  std::string text = "Pairs of neighbouring calls";
  if (!partition.label.empty())
    text += " in the partition \"" + partition.label + "\"";
  text += ":\n";
  for (const FusionReason& pair : partition.pairs) {
    text += pair_text(partition, pair);
  }
  if (partition.pairs.empty())
    text += "  none: no call reads the result of another\n";
  std::string calls;
  for (const auto& [name, decision] : partition.calls) {
    if (decision.reason.empty() || !partition.operators.contains(name)) {
      continue;
    }
    calls += "  " + name + " (" + partition.operators.at(name) + ")" +
             (decision ? " has a generated kernel: " : " stays PyTorch's: ") +
             decision.reason + "\n";
  }
  return calls.empty() ? text
                       : text + "Calls with a choice of their own:\n" + calls;
}

std::string kernel_text(const KernelReason& kernel) {
  std::string text = "    " + kernel.kernel;
  if (!kernel.calls.empty()) text += ", for " + kernel.calls;
  text += ":\n";
  if (!kernel.nest.empty()) {
    text += "      a kernel of its own, because " + kernel.nest + "\n";
  }
  text += "      tile " + kernel.tile + ", because " + kernel.reason + "\n";
  for (const EstimatedOption& option : kernel.options) {
    text += formatted("        %8.1f us  ", option.us) + option.name + "\n";
  }
  return text;
}

std::string subgraph_text(const ExplainedSubgraph& subgraph, bool all) {
  std::string text = "Subgraph " + subgraph.id + ", " + subgraph.type + ":\n";
  if (!subgraph.implementation.empty()) {
    text += "  " + subgraph.implementation + " runs, because " +
            subgraph.reason + "\n";
  }
  if (!subgraph.failure.empty()) {
    text += "  the compiler has no kernel: " + subgraph.failure + "\n";
  }
  const auto is_best = [&](const ExplainedSource& source) {
    return std::pair(source.target, source.variant) == subgraph.best;
  };
  const bool has_best = std::ranges::any_of(subgraph.sources, is_best);
  std::set<std::string> shown;
  for (const ExplainedSource& source : subgraph.sources) {
    if (!all && has_best && !is_best(source)) continue;
    if (!shown.insert(source.target).second && !all) continue;
    text += "  " + source.target + ", variant " + source.variant + ":\n";
    for (const KernelReason& kernel : source.kernels) {
      text += kernel_text(kernel);
    }
  }
  const std::size_t hidden = all ? 0 : subgraph.sources.size() - shown.size();
  if (hidden > 0) {
    text += "  " + std::to_string(hidden) +
            " more variants are proposed, of which a run builds as many as "
            "it has time for (--verbose explains them)\n";
  }
  return text;
}

json kernel_json(const KernelReason& kernel) {
  json options = json::array();
  for (const EstimatedOption& option : kernel.options) {
    options.push_back({{"name", option.name}, {"us", option.us}});
  }
  return {{"kernel", kernel.kernel}, {"calls", kernel.calls},
          {"separate", kernel.nest}, {"tile", kernel.tile},
          {"reason", kernel.reason}, {"options", std::move(options)}};
}

json partition_json(const ExplainedPartition& partition) {
  json pairs = json::array();
  for (const FusionReason& pair : partition.pairs) {
    pairs.push_back({{"producer", pair.producer},
                     {"consumer", pair.consumer},
                     {"fused", pair.is_fused},
                     {"reason", pair.reason}});
  }
  json calls = json::array();
  for (const auto& [name, target] : partition.operators) {
    const auto decision = partition.calls.find(name);
    const bool is_known = decision != partition.calls.end();
    calls.push_back({{"name", name},
                     {"operator", target},
                     {"generated", is_known && decision->second.yes},
                     {"reason", is_known ? decision->second.reason : ""}});
  }
  return {{"label", partition.label},
          {"pairs", std::move(pairs)},
          {"calls", std::move(calls)}};
}

json subgraph_json(const ExplainedSubgraph& subgraph) {
  json sources = json::array();
  for (const ExplainedSource& source : subgraph.sources) {
    json kernels = json::array();
    for (const KernelReason& kernel : source.kernels) {
      kernels.push_back(kernel_json(kernel));
    }
    sources.push_back({{"target", source.target},
                       {"variant", source.variant},
                       {"kernels", std::move(kernels)}});
  }
  return {{"id", subgraph.id},           {"type", subgraph.type},
          {"calls", subgraph.calls},     {"sources", std::move(sources)},
          {"failure", subgraph.failure}, {"runs", subgraph.implementation},
          {"reason", subgraph.reason}};
}

}  // namespace

Result<Explanation> explain(const Journal& journal,
                            const Replay::MakeRole& make_role) {
  const auto recorded = read(journal);
  if (!recorded) return std::unexpected(recorded.error());
  const auto plan = replayed_plan(journal, recorded->dispatch_seq, make_role);
  if (!plan) return std::unexpected(plan.error());
  Explanation explanation;
  explanation.problem = recorded->start->problem_name;
  explanation.target = recorded->start->options.target;
  const auto recorded_plan = journal.get_blob(recorded->dispatch->plan);
  if (!recorded_plan) return std::unexpected(recorded_plan.error());
  explanation.is_as_recorded = plan_to_json(*plan) == *recorded_plan;
  explanation.partitions.push_back(partition_of(*plan));
  for (const auto* others :
       {&plan->others, &plan->eager_contractions_partition}) {
    for (const Plan& other : *others) {
      explanation.partitions.push_back(partition_of(other));
    }
  }
  json result;
  if (!recorded->result.empty()) {
    const auto text = journal.get_blob(recorded->result);
    if (!text) return std::unexpected(text.error());
    result = parse_json(*text);
  }
  if (!result.is_object()) result = json::object();
  for (const Subgraph& subgraph : all_subgraphs(*plan)) {
    explanation.subgraphs.push_back(subgraph_of(subgraph, *recorded->start));
    const auto done = recorded->done.find(subgraph.id);
    if (done != recorded->done.end()) {
      take_outcome(done->second, result, explanation.subgraphs.back());
    }
  }
  for (const json& note : result.value("notes", json::array())) {
    if (note.is_string()) explanation.notes.push_back(note.get<std::string>());
  }
  return explanation;
}

std::string explanation_text(const Explanation& explanation, bool all) {
  std::string text =
      explanation.problem + ", target " + explanation.target + "\n";
  if (!explanation.is_as_recorded) {
    text +=
        "This version of weft partitions the model differently from the "
        "version that made the run; the reasons are this version's.\n";
  }
  for (const ExplainedPartition& partition : explanation.partitions) {
    text += "\n" + partition_text(partition);
  }
  for (const ExplainedSubgraph& subgraph : explanation.subgraphs) {
    text += "\n" + subgraph_text(subgraph, all);
  }
  if (!explanation.notes.empty()) text += "\nOn the module:\n";
  for (const std::string& note : explanation.notes) text += "  " + note + "\n";
  return text;
}

json explanation_json(const Explanation& explanation) {
  json partitions = json::array();
  for (const ExplainedPartition& partition : explanation.partitions) {
    partitions.push_back(partition_json(partition));
  }
  json subgraphs = json::array();
  for (const ExplainedSubgraph& subgraph : explanation.subgraphs) {
    subgraphs.push_back(subgraph_json(subgraph));
  }
  return {{"problem", explanation.problem},
          {"target", explanation.target},
          {"as_recorded", explanation.is_as_recorded},
          {"partitions", std::move(partitions)},
          {"subgraphs", std::move(subgraphs)},
          {"notes", explanation.notes}};
}

}  // namespace weft
