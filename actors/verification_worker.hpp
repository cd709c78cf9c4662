// Verifies one seed: builds it, checks it against the oracle, times it when it
// is right; times it again when asked. A seed for any batch is checked at
// several. Answers each request with one SeedResult, unless it is stopped. One
// that is cancelled answers, too: with the timing that is under way, which has
// a few seconds to end, or else at once that there is none.
#pragma once

#include <optional>
#include <vector>

#include "actors/pending_effects.hpp"
#include "actors/role.hpp"
#include "compiler/graph/symbolic_shapes.hpp"

namespace weft {

class VerificationWorker : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

 private:
  void stop(const StopSeed& order, Context& context);
  void build(Context& context);
  void check(const std::string& graph, Context& context);
  bool check_another_size(Context& context);
  void refute(Verdict verdict);
  void time(std::int64_t budget_ms, bool with_compile, Context& context);
  void ended(const EffectResult& end, Context& context);
  void built(const BuildReply& reply, Context& context);
  void checked(const CheckReply& reply, Context& context);
  void timed(const TimeReply& reply, Context& context);
  Subject subject() const;
  void start(const Address& port, const Message& request, LeaseTerms terms,
             std::int64_t wall_ms, Context& context);
  LeaseTerms verify_terms(int units) const;
  void report(Context& context);

  std::optional<VerifySeed> work_;
  bool stopped_ = false;
  bool timing_ = false;  ///< the effect under way is a timing
  Address agent_;
  SeedResult result_;
  std::string artefact_;  ///< blob: what the build made, if the port gave it
  /// Of a graph that grows: at which it is still to be checked at …
  std::vector<Sizes> judged_;
  Sizes sizes_;  ///< … and those that it is; empty: its own
  PendingEffects effects_;
};

}  // namespace weft
