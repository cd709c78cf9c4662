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
/// One in so many of the builds that may run at once.
constexpr int share = 4;

}  // namespace

void InductorSeeds::receive(const Address& from, const Message& message,
                            Context& context) {
  if (const auto* request = std::get_if<SeedsRequest>(&message)) {
    waiting_.push_back({from, request->work});
  } else if (std::holds_alternative<StopSeed>(message)) {
    std::erase_if(waiting_, [&](const Waiting& one) { return one.by == from; });
  } else if (const auto end = errands_.receive(message, context)) {
    answered(*end, context);
  }
  while (begin_next(context)) {
  }
}

/// False: nothing waits, or as many are under way as may be.
bool InductorSeeds::begin_next(Context& context) {
  const auto worth = [](const Waiting& one) { return one.work.worth; };
  const auto next = std::ranges::max_element(waiting_, {}, worth);
  if (next == waiting_.end()) return false;
  const int most = std::max(1, next->work.options.jobs / share);
  if (worth(*next) > 0 && std::cmp_greater_equal(asked_.size(), most)) {
    return false;
  }
  const Waiting one = std::move(*next);
  waiting_.erase(next);
  begin(one, context);
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
  terms.worth = work.worth;
  terms.ttl_ms = compile_ms + lease_slack_ms;
  if (!work.places.empty()) terms.places = {node_of(work.places.front())};
  if (!work.places.empty() && !work.machine.gpus.empty()) {
    request.arch = work.machine.gpus.front().arch;
  }
  const auto errand =
      errands_.start(address::build, request, terms, context, tries);
  asked_[errand] = {next.by, work.subgraph};
}

void InductorSeeds::answered(const ErrandEnd& end, Context& context) {
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
