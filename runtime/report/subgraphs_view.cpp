#include "runtime/report/subgraphs_view.hpp"

#include "messages/parse_json.hpp"
#include "runtime/report/model_view.hpp"
#include "runtime/report/timeline.hpp"

namespace weft {

using nlohmann::json;

json fields_of(const Envelope& envelope) {
  json fields = json_of_msgpack(envelope.body);
  return fields.is_discarded() ? json() : fields;
}

json& SubgraphsView::subgraph(const std::string& id) {
  const auto [found, is_new] = by_id_.try_emplace(id, subgraphs_.size());
  if (is_new) {
    subgraphs_.push_back({{"id", id},
                          {"type", ""},
                          {"count", 1},
                          {"outcome", nullptr},
                          {"reason", ""},
                          {"best", nullptr},
                          {"begun_us", nullptr},
                          {"ended_us", nullptr},
                          {"sources", json::array()},
                          {"candidates", json::array()}});
  }
  return subgraphs_[found->second];
}

void SubgraphsView::take_plan(const Plan& plan) {
  for (const Subgraph& piece : plan.subgraphs) {
    json& view = subgraph(piece.id);
    view["type"] = piece.type;
    view["signature"] = piece.signature;
    view["count"] = 0;
    view["operations"] = operation_count(piece.graph);
    view["bytes"] = traffic_bytes(piece.graph);
    json inputs = json::array();
    for (const Node& node : piece.graph.nodes) {
      if (node.kind != NodeKind::call) inputs.push_back(type_text(node));
    }
    view["inputs"] = inputs;
    json results = json::array();
    for (const std::string& name : piece.graph.outputs) {
      const Node* node = piece.graph.find(name);
      if (node) results.push_back(type_text(*node));
    }
    view["results"] = results;
  }
  for (const Placement& placement : plan.placements) {
    json& view = subgraph(placement.subgraph);
    view["count"] = view["count"].get<int>() + 1;
  }
}

json* SubgraphsView::candidate(const std::string& id, const Seed& seed) {
  json& list = subgraph(id)["candidates"];
  auto& known = candidates_[id];
  const auto found = known.find(seed.id);
  if (found != known.end()) return &list[found->second];
  if (count_ >= candidates_max_) {
    ++left_out_;
    return nullptr;
  }
  ++count_;
  known[seed.id] = list.size();
  list.push_back({{"id", seed.id},
                  {"target", seed.target},
                  {"origin", seed.origin},
                  {"variant", seed.variant},
                  {"source", seed.source},
                  {"parent", seed.parent},
                  {"round", seed.round},
                  {"method", seed.method},
                  {"state", "proposed"},
                  {"call", nullptr}});
  return &list.back();
}

void SubgraphsView::take_seeds(const Envelope& envelope,
                               const SeedsReply& reply,
                               const CallsView& calls) {
  const auto call = calls.call_of_reply(envelope.cause);
  for (const Seed& seed : reply.seeds) {
    json* view = candidate(reply.subgraph, seed);
    if (view && call) (*view)["call"] = *call;
  }
  if (!reply.failure && reply.seeds.empty() && reply.more) return;
  subgraph(reply.subgraph)["sources"].push_back(
      {{"origin", reply.origin},
       {"round", reply.round},
       {"seeds", reply.seeds.size()},
       {"failure", reply.failure.message}});
}

void SubgraphsView::take_result(const Envelope& envelope,
                                const SeedResult& result) {
  json* view = candidate(subgraph_of(envelope.dst), result.seed);
  if (!view) return;
  const json fields = fields_of(envelope);
  (*view)["ended_us"] = envelope.at_us;
  (*view)["event"] = envelope.seq;
  (*view)["built"] = result.built;
  (*view)["log"] = result.build_log;
  (*view)["location"] = result.location;
  (*view)["verdict"] = fields.value("verdict", json());
  (*view)["failure"] = result.failure.message;
  (*view)["state"] = result.failure ? "failed" : result.verdict.kind;
  // The best is timed once more, longer: that is what counts.
  (*view)["timing"] = result.timed ? fields.value("timing", json()) : json();
}

void SubgraphsView::take_end(const Envelope& envelope,
                             const SubgraphDone& done) {
  json& view = subgraph(done.subgraph);
  if (!view["outcome"].is_null()) return;
  view["outcome"] = done.outcome;
  view["reason"] = done.reason;
  view["best"] = done.best.seed.id;
  view["seeds"] = done.seeds;
  view["correct"] = done.correct;
  view["llm"] = fields_of(envelope).value("llm", json());
  view["ended_us"] = envelope.at_us;
}

void SubgraphsView::take(const Envelope& envelope, const Message& message,
                         const CallsView& calls) {
  if (const auto* m = std::get_if<OptimizeSubgraph>(&message)) {
    json& view = subgraph(m->subgraph);
    // Said again where locations joined.
    if (view["begun_us"].is_null()) view["begun_us"] = envelope.at_us;
    if (view["type"] == "") view["type"] = m->type;
  } else if (const auto* m = std::get_if<SeedsReply>(&message)) {
    take_seeds(envelope, *m, calls);
  } else if (const auto* m = std::get_if<VerifySeed>(&message)) {
    json* view = candidate(m->subgraph, m->seed);
    if (!view) return;
    (*view)["state"] = "verifying";
    (*view)["begun_us"] = envelope.at_us;
  } else if (const auto* m = std::get_if<StopSeed>(&message)) {
    const std::string id = subgraph_of(envelope.dst);
    Seed seed;
    seed.id = seed_of(envelope.dst);
    if (!candidates_[id].contains(seed.id)) return;
    json* view = candidate(id, seed);
    if ((*view)["state"] != "verifying") return;
    (*view)["state"] = "stopped";
    (*view)["failure"] = m->reason;
  } else if (const auto* m = std::get_if<SeedResult>(&message)) {
    take_result(envelope, *m);
  } else if (const auto* m = std::get_if<SubgraphDone>(&message)) {
    take_end(envelope, *m);
  }
}

}  // namespace weft
