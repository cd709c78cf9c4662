#include "runtime/ui/run_counters.hpp"

#include "messages/vocabulary.hpp"
#include "runtime/host/effect_ledger.hpp"

namespace weft {

void RunCounters::take(const Envelope& envelope) {
  if (events == 0) first_us = envelope.at_us;
  events = envelope.seq;
  last_us = envelope.at_us;
  if (envelope.dst == stale_address) {
    ++stale;
    return;
  }
  if (is_request(envelope)) {
    const Address port = port_of(envelope.dst);
    asked_[envelope.seq] = {port, envelope.at_us};
    ++open[port];
  } else if (is_port(envelope.src)) {
    if (auto asked = asked_.extract(envelope.cause); !asked.empty()) {
      const auto& [port, at_us] = asked.mapped();
      --open[port];
      Answers& all = answers[port];
      ++all.count;
      all.sum_us += envelope.at_us - at_us;
    }
  }
  take_message(envelope);
}

void RunCounters::take_message(const Envelope& envelope) {
  const auto message = decode(envelope.type, envelope.body);
  if (!message) return;
  if (const auto* m = std::get_if<RunStart>(&*message)) {
    start = *m;
  } else if (const auto* m = std::get_if<RunFinished>(&*message)) {
    finished = *m;
  } else if (const auto* m = std::get_if<OptimizeSubgraph>(&*message)) {
    // Said again where locations joined.
    if (begun_.insert(m->subgraph).second) ++subgraphs;
  } else if (const auto* m = std::get_if<SubgraphDone>(&*message)) {
    if (done_.insert(m->subgraph).second) ++outcomes[m->outcome];
  } else if (const auto* m = std::get_if<SeedResult>(&*message)) {
    ++verdicts[m->failure ? "failed" : m->verdict.kind];
  } else if (const auto* m = std::get_if<LlmReply>(&*message)) {
    if (m->from_cache) return;
    tokens["input"] += m->usage.input;
    tokens["cached"] += m->usage.cached;
    tokens["cache_written"] += m->usage.cache_written;
    tokens["output"] += m->usage.output;
    tokens["reasoning"] += m->usage.reasoning;
    micro_usd += m->micro_usd;
  }
}

}  // namespace weft
