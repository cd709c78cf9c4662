#include "actors/inductor_seeds.hpp"

#include <algorithm>
#include <utility>

#include "compiler/python/inductor.hpp"

namespace weft {
namespace {

/// To load PyTorch and its compiler, on a machine where others build.
constexpr std::int64_t compile_ms = 180'000;
/// The port answers within its limit; the lease is its safety net.
constexpr std::int64_t lease_slack_ms = 30'000;
constexpr int tries = 2;
/// With a limited time so many subgraphs are at work for each that Inductor
/// compiles.
constexpr int share = 4;

std::string node_for(const OptimizeSubgraph& work) {
  return work.locations.empty() ? "" : node_of(work.locations.front());
}

}  // namespace

void InductorSeeds::receive(const Address& from, const Message& message,
                            Context& context) {
  if (const auto* request = std::get_if<SeedsRequest>(&message)) {
    waiting_.push_back({from, request->work});
  } else if (const auto* order = std::get_if<StopSeed>(&message)) {
    stop(from, order->reason, context);
  } else if (const auto end = effects_.receive(message, context)) {
    answered(*end, context);
  }
  while (begin_next(context)) {
  }
}

void InductorSeeds::stop(const Address& by, const std::string& reason,
                         Context& context) {
  std::erase_if(waiting_,
                [&](const Waiting& waiting) { return waiting.by == by; });
  std::erase_if(asked_, [&](const auto& item) {
    if (item.second.by != by) return false;
    effects_.cancel(item.first, reason, context);
    return true;
  });
}

bool InductorSeeds::fits_in_queue(const OptimizeSubgraph& work) const {
  if (work.expected_gain == 0) return true;  // there is time for all
  const auto there = std::ranges::count_if(asked_, [&](const auto& item) {
    return item.second.node == node_for(work);
  });
  return there < std::max(1, work.options.jobs / share);
}

/// False: there is none that may be begun.
bool InductorSeeds::begin_next(Context& context) {
  auto next = waiting_.end();
  for (auto current = waiting_.begin(); current != waiting_.end(); ++current) {
    const bool is_dearer =
        next == waiting_.end() ||
        current->work.expected_gain > next->work.expected_gain;
    if (is_dearer && fits_in_queue(current->work)) next = current;
  }
  if (next == waiting_.end()) return false;
  const Waiting waiting = std::move(*next);
  waiting_.erase(next);
  begin(waiting, context);
  return true;
}

void InductorSeeds::begin(const Waiting& next, Context& context) {
  const OptimizeSubgraph& work = next.work;
  BuildRequest request;
  request.target = kInductorGraph;
  request.source = work.graph;
  request.wall_ms = compile_ms;
  LeaseTerms terms;
  terms.group = work.subgraph;
  terms.expected_gain = work.expected_gain;
  terms.ttl_ms = compile_ms + lease_slack_ms;
  if (!work.locations.empty()) terms.locations = {node_for(work)};
  if (!work.locations.empty() && !work.machine.gpus.empty()) {
    request.arch = work.machine.gpus.front().arch;
  }
  const auto effect =
      effects_.start(address::build, request, terms, context, tries);
  asked_[effect] = {next.by, work.subgraph, node_for(work)};
}

void InductorSeeds::answered(const EffectResult& end, Context& context) {
  const auto asked = asked_.extract(end.id);
  if (asked.empty()) return;
  SeedsReply reply;
  reply.subgraph = asked.mapped().subgraph;
  reply.origin = inductor_source;
  reply.failure = end.failure;
  if (!end.failure) {
    const std::string& file = std::get<BuildReply>(*end.reply).artefact;
    if (file.empty()) {
      reply.failure = {"failed", "Inductor's file is lost"};
    } else {
      reply.seeds.push_back({"inductor-0", std::string(kInductorTarget),
                             inductor_source, "as Inductor compiles it", file});
    }
  }
  if (reply.failure) {
    context.send(address::user, Progress{reply.subgraph, inductor_source,
                                         reply.failure.message});
  }
  context.send(asked.mapped().by, reply);
}

}  // namespace weft
