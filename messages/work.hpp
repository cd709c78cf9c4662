// What the roles say to each other about subgraphs, seeds and the composition.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/effects.hpp"
#include "messages/fields.hpp"
#include "messages/known_kernels.hpp"
#include "messages/run.hpp"

namespace weft {

/// A candidate kernel.
struct Seed {
  std::string id;        ///< unique in its subgraph: "compiler-0"
  std::string target;    ///< "cpu"
  std::string origin;    ///< where it came from: "compiler", "library"
  std::string variant;   ///< "vec16 unroll2", for people
  std::string source;    ///< blob
  std::string parent{};  ///< id of the seed that it refines; empty: none
  int round = 0;         ///< of refinement; 0: a first proposal
  std::string method{};  ///< that a language model was offered for it
  /// A language model's own line about its kernel, and what it says of the
  /// advice and the result of the round before.
  std::string idea{};
  std::string review{};
  WEFT_FIELDS(id, target, origin, variant, source, parent, round, method, idea,
              review)
  bool operator==(const Seed&) const = default;
};

/// extractor -> dispatcher: the model is cut.
struct Dispatch {
  static constexpr std::string_view name = "Dispatch";
  std::string plan;  ///< blob: plan_to_json()
  RunStart run;
  /// By the journal's clock; said where the run's time is limited.
  std::int64_t begun_us = 0;
  WEFT_FIELDS(plan, run, begun_us)
  bool operator==(const Dispatch&) const = default;
};

/// dispatcher -> agent/<subgraph>.
struct OptimizeSubgraph {
  static constexpr std::string_view name = "OptimizeSubgraph";
  std::string subgraph;  ///< id
  std::string type;
  std::string signature;
  std::string graph;  ///< blob: the subgraph's graph
  RunOptions options;
  Machine machine;
  /// Locations for checks and timings, in order; one of them is used for all
  /// kernels. Empty: the broker chooses.
  std::vector<Location> locations{};
  std::int64_t device_bytes = 0;  ///< Device memory that a check may take.
  std::vector<Seed> parts{};  ///< Winners that one fused kernel may replace.
  /// The gain that is expected, compared with other subgraphs that wait for the
  /// same device. 0: time is not limited, all take turns.
  std::int64_t expected_gain = 0;
  /// This subgraph's part of the model's work by bytes and operations, at all
  /// of its places. 0: unknown.
  double share = 0;
  std::string device_class{};       ///< Name of the locations' class.
  bool may_gain_locations = false;  ///< It is sent again when nodes join.
  WEFT_FIELDS(subgraph, type, signature, graph, options, machine, locations,
              device_bytes, parts, expected_gain, share, device_class,
              may_gain_locations)
  bool operator==(const OptimizeSubgraph&) const = default;
};

/// dispatcher -> agent: its share of the run's time is over. It ends with the
/// best kernel that has been verified.
struct StopSearch {
  static constexpr std::string_view name = "StopSearch";
  std::string reason;
  WEFT_FIELDS(reason)
  bool operator==(const StopSearch&) const = default;
};

/// agent -> seeds/<source>, and its answer.
struct SeedsRequest {
  static constexpr std::string_view name = "SeedsRequest";
  OptimizeSubgraph work;
  WEFT_FIELDS(work)
  bool operator==(const SeedsRequest&) const = default;
};
struct SeedsReply {
  static constexpr std::string_view name = "SeedsReply";
  std::string subgraph;
  std::string origin;
  std::vector<Seed> seeds;
  Failure failure;
  KnownKernel known{};  ///< The library's record of its seed.
  bool more = false;    ///< Another reply to the same request will follow.
  int round = 0;        ///< Round of the RefineRequest; 0: of a SeedsRequest.
  LlmSpent spent{};     ///< Cost of this reply.
  std::vector<WinningPattern> patterns{};  ///< The library's, for prompts.
  WEFT_FIELDS(subgraph, origin, seeds, failure, known, more, round, spent,
              patterns)
  bool operator==(const SeedsReply&) const = default;
};

/// agent -> worker/<subgraph>.<seed>: build it, check it, time it.
struct VerifySeed {
  static constexpr std::string_view name = "VerifySeed";
  std::string subgraph;
  std::string graph;  ///< blob
  Seed seed;
  RunOptions options;
  Machine machine;
  bool thorough = false;  ///< The first timing is as long as the last one.
  Location location{};    ///< For checks and timings, if `placed`.
  bool placed = false;
  std::int64_t device_bytes = 0;   ///< Device memory that a check may take.
  std::int64_t expected_gain = 0;  ///< As in LeaseRequest.
  std::string device_class{};      ///< As in OptimizeSubgraph.
  WEFT_FIELDS(subgraph, graph, seed, options, machine, thorough, location,
              placed, device_bytes, expected_gain, device_class)
  bool operator==(const VerifySeed&) const = default;
};

/// agent -> worker: time it again, longer and beside torch.compile.
struct TimeSeed {
  static constexpr std::string_view name = "TimeSeed";
  std::int64_t budget_ms = 0;
  bool with_compile = false;
  std::int64_t expected_gain = 0;  ///< As in LeaseRequest.
  WEFT_FIELDS(budget_ms, with_compile, expected_gain)
  bool operator==(const TimeSeed&) const = default;
};

/// agent -> worker: its seed is not needed any more.
struct StopSeed {
  static constexpr std::string_view name = "StopSeed";
  std::string reason;
  bool cancel = false;  ///< Ports stop their work on it; the worker replies.
  WEFT_FIELDS(reason, cancel)
  bool operator==(const StopSeed&) const = default;
};

/// worker -> agent: the results of a seed.
struct SeedResult {
  static constexpr std::string_view name = "SeedResult";
  Seed seed;
  bool built = false;
  std::string build_log;  ///< blob
  Verdict verdict;
  bool timed = false;
  Timing timing;
  Failure failure;         ///< A failure of the verification itself.
  Location location{};     ///< Location of checks and timings.
  int locations_lost = 0;  ///< Locations lost during the work on it.
  /// The class of the device that gave verdict and timing. Verdicts of two
  /// classes are never compared.
  std::string device_class{};
  std::string artefact{};  ///< Blob: the built kernel, if it travels.
  WEFT_FIELDS(seed, built, build_log, verdict, timed, timing, failure, location,
              locations_lost, device_class, artefact)
  bool operator==(const SeedResult&) const = default;
};

/// agent -> seeds/<source>: refine this seed. The reply is a SeedsReply of that
/// round, whose seeds have it as parent.
struct RefineRequest {
  static constexpr std::string_view name = "RefineRequest";
  std::string subgraph;
  OptimizeSubgraph work;
  Seed seed;
  SeedResult result;  ///< Verdict, times and the compiler's messages.
  int round = 0;      ///< The round that is asked for, from 1.
  std::vector<SeedResult> history;         ///< Its ancestors, the oldest first.
  SeedResult best;                         ///< The subgraph's best so far.
  std::vector<WinningPattern> patterns{};  ///< For similar subgraphs.
  WEFT_FIELDS(subgraph, work, seed, result, round, history, best, patterns)
  bool operator==(const RefineRequest&) const = default;
};

/// agent -> dispatcher -> composer: the verdict on a subgraph.
struct SubgraphDone {
  static constexpr std::string_view name = "SubgraphDone";
  std::string subgraph;
  /// "won": a correct kernel, faster than eager beyond noise. "not_faster":
  /// correct, and not faster. "proven": correct, and nothing is timed here.
  /// "wrong": no kernel is correct. "failed": nothing could be verified.
  std::string outcome;
  std::string reason;
  SeedResult best;  ///< If won, not_faster or proven.
  int seeds = 0;    ///< Seeds that were tried.
  int correct = 0;  ///< Correct seeds among these.
  LlmSummary llm{};
  WEFT_FIELDS(subgraph, outcome, reason, best, seeds, correct, llm)
  bool operator==(const SubgraphDone&) const = default;
};

/// dispatcher -> composer: every subgraph has its verdict.
struct Compose {
  static constexpr std::string_view name = "Compose";
  std::string plan;  ///< blob
  RunStart run;
  std::vector<SubgraphDone> results;  ///< in the plan's order
  /// When the run should be over, by the journal's clock; 0: whenever.
  std::int64_t ends_us = 0;
  /// Where that is limited: when the run began, its model was captured, and the
  /// search ended.
  std::int64_t begun_us = 0;
  std::int64_t captured_us = 0;
  std::int64_t searched_us = 0;
  WEFT_FIELDS(plan, run, results, ends_us, begun_us, captured_us, searched_us)
  bool operator==(const Compose&) const = default;
};

/// composer -> dispatcher: no module is near to eager with all its kernels, or
/// none has a product in one. Which kernels are there for the plan's partition
/// with PyTorch's own products?
struct SearchEagerContractions {
  static constexpr std::string_view name = "SearchEagerContractions";
  std::int64_t until_us = 0;  ///< by the journal's clock; 0: no limit
  WEFT_FIELDS(until_us)
  bool operator==(const SearchEagerContractions&) const = default;
};

/// dispatcher -> composer, its answer.
struct EagerContractionsSearched {
  static constexpr std::string_view name = "EagerContractionsSearched";
  std::vector<SubgraphDone> results;  ///< Results that Compose did not have.
  WEFT_FIELDS(results)
  bool operator==(const EagerContractionsSearched&) const = default;
};

}  // namespace weft
