#include "runtime/host/effect_ledger.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

Envelope sent(std::uint64_t seq, std::uint64_t cause, const Address& src,
              const Address& dst) {
  Envelope envelope;
  envelope.seq = seq;
  envelope.cause = cause;
  envelope.src = src;
  envelope.dst = dst;
  return envelope;
}

/// Where the ledger lets it go.
Address settled(EffectLedger& ledger, Envelope envelope) {
  ledger.settle(envelope);
  return envelope.dst;
}

TEST_CASE("the first reply to a request goes through, later ones are stale") {
  EffectLedger ledger;
  CHECK(settled(ledger, sent(5, 1, "worker/a", "port/build")) == "port/build");
  CHECK(settled(ledger, sent(6, 5, "port/build", "worker/a")) == "worker/a");
  CHECK(settled(ledger, sent(7, 5, "port/build", "worker/a")) == stale_address);
}

TEST_CASE("a reply to no request is stale") {
  EffectLedger ledger;
  CHECK(settled(ledger, sent(2, 1, "port/build", "worker/a")) == stale_address);
}

TEST_CASE("what cancels an effect has no reply of its own") {
  EffectLedger ledger;
  Envelope cancel = sent(5, 1, "worker/a", "port/build");
  cancel.type = CancelEffect::name;
  CHECK(settled(ledger, cancel) == "port/build");
  CHECK(settled(ledger, sent(6, 5, "port/build", "worker/a")) == stale_address);
}

TEST_CASE("requests of an earlier process may be answered once") {
  EffectLedger ledger({3});
  CHECK(settled(ledger, sent(9, 3, "port/clock", "broker")) == "broker");
  CHECK(settled(ledger, sent(10, 3, "port/clock", "broker")) == stale_address);
}

TEST_CASE("what roles say to each other is left alone") {
  EffectLedger ledger;
  CHECK(settled(ledger, sent(1, 0, "user", "extractor")) == "extractor");
  CHECK(settled(ledger, sent(2, 1, "extractor", "broker")) == "broker");
  CHECK(settled(ledger, sent(3, 1, "extractor", "broker")) == "broker");
}

}  // namespace
}  // namespace weft
