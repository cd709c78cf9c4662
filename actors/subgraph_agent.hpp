// Finds the best kernel for one subgraph: asks the sources for seeds, has each
// verified by a worker of its own, and has the fastest right one timed once
// more, longer and beside torch.compile, if that is asked for. The library's
// kernel goes first: where it is right and as fast as remembered, what it has
// outdone before is spared. A kernel that can hardly be bettered stops the
// other seeds, and so does a right one where none can be timed. A language
// model is asked last, and only where that leaves something to gain. The best
// one is kept in the library. Told that its time is over, it waits for what is
// being timed, which ends in a few seconds, and takes the best as it is. All
// kernels are timed on one device: where it is gone, those that are right are
// verified anew on another one like it. If all such devices are nodes' and are
// gone, it waits until the dispatcher names another or says that none comes.
// Ends in exactly one SubgraphDone.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/llm/search.hpp"
#include "actors/pending_effects.hpp"
#include "actors/role.hpp"

namespace weft {

class SubgraphAgent : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

 private:
  void begin(const OptimizeSubgraph& work, Context& context);
  void take_locations(const OptimizeSubgraph& work, Context& context);
  void stop_search(const std::string& why, Context& context);
  void seeds_came(const SeedsReply& reply, Context& context);
  void verify(const Seed& seed, Context& context);
  void start_waiting(Context& context);
  void result_came(const Address& from, const SeedResult& result,
                   Context& context);
  void known_judged(const SeedResult& result, Context& context);
  Location location() const;
  std::int64_t expected_gain(std::size_t look) const;
  bool is_elsewhere(const SeedResult& result) const;
  bool may_get_location() const;
  void location_lost(const SeedResult& result, Context& context);
  void end_without_location(const SeedResult& result, Context& context);
  void move(Context& context);
  void stop(const std::string& seed, const std::string& why, Context& context);
  Address worker(const std::string& seed) const;
  void stop_others(const std::string& why, Context& context);
  bool ask_model(Context& context);
  void compared(const SeedResult& result, Context& context);
  void send_asks(Context& context);
  void stop_model(const std::string& why, Context& context);
  void decide(Context& context);
  void conclude(Context& context);
  void finish(std::string outcome, std::string reason, Context& context);
  bool keep(Context& context);
  bool write_session(Context& context);
  std::vector<std::string> superseded() const;
  void leave(Context& context);
  bool is_at_roofline(const SeedResult& result) const;
  bool awaits_library() const;
  const SeedResult* of_library() const;
  const SeedResult* fastest() const;
  const SeedResult* first_right() const;
  std::set<std::string> unjudged() const;

  std::optional<OptimizeSubgraph> work_;
  std::set<std::string> sources_open_;         ///< Sources that may reply yet.
  std::map<std::string, int> replies_;         ///< Replies by source.
  std::size_t location_index_ = 0;             ///< Index in work_->locations.
  std::map<std::string, int> locations_lost_;  ///< Lost locations by seed.
  /// The result that told of the last location's loss: another is waited for.
  std::optional<SeedResult> stranded_;
  std::map<std::string, Seed> seeds_;  ///< Seeds in verification, by id.
  std::map<std::string, SeedResult> results_;
  std::map<std::string, std::int64_t>
      judged_us_;              ///< Time of the verdict, by seed.
  std::vector<Seed> waiting_;  ///< Seeds behind the library's kernel.
  std::string known_id_;       ///< Id of the library's kernel; may be empty.
  KnownKernel known_;          ///< The library's record of that kernel.
  std::vector<WinningPattern> patterns_;  ///< Patterns of similar subgraphs.
  bool holds_ = false;            ///< it is right, and as fast as remembered
  bool can_keep_ = false;         ///< the library answered
  std::string final_;             ///< the seed in its last timing
  std::string error_text_;        ///< a source that failed said this
  bool settled_ = false;          ///< no further seed is waited for …
  std::set<std::string> ending_;  ///< … but those, as the time is over
  std::string out_of_time_;  ///< why nothing is begun any more; empty: it is
  std::optional<SubgraphDone> done_;  ///< until all is kept
  LlmSearch model_;                   ///< what a language model is asked
  std::vector<RefineRequest> asks_;   ///< of it, once torch.compile is timed …
  std::string compared_;  ///< … beside this seed; empty: not yet, or never
  Times compile_;         ///< what that gave; runs == 0: nothing
  PendingEffects effects_;
  bool over_ = false;
};

}  // namespace weft
