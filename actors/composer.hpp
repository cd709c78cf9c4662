// Weaves the kernels that won into ModelNew, has it verified and timed end to
// end, and writes the module and the report. When the whole is wrong it drops
// the kernels that fit worst, half of them at a time; when it is slower than
// eager, and so again when it is timed once more, it keeps the framework's
// forward. The last resort has no kernels. What is right and cannot be timed is
// reported so. Where the model was cut in several ways, each is composed and
// timed so, and the fastest is the one that is written. Where a cut has calls
// that stand in for several of the model's, it is tried without kernels, too.
//
// Where the module is correct and outside KernelBench's tolerance, and
// the run's --accept wants one that is, it is composed a second time: of the
// kernels in the order of their distance from eager, it finds by halves how
// many can stay, in as many checks as their number has binary digits. Another
// cut's module that was timed and is near spares that. If kernels leave for
// their products, the dispatcher is asked for the plan's eager-contractions
// partition, in which PyTorch computes the products. Its module is tried, too,
// and the faster one is the near module. That partition is also searched if the
// whole has no kernel with a product, because none was right or faster. Its
// module becomes the whole if it is faster.
//
// When the run's time is over (Compose::ends_us), what was composed is checked
// all the same; nothing is tried or timed any more that need not be.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/cut_trials.hpp"
#include "actors/pending_effects.hpp"
#include "actors/report.hpp"
#include "actors/role.hpp"

namespace weft {

inline constexpr const char* kOutOfTime =
    "Verified, but not timed: the run's time was over.";

class Composer : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  void recall(const Message& recorded) override;
  nlohmann::json describe() const override;

 private:
  void begin(const Compose& compose, Context& context);
  void choose_kernels();
  void choose_placed();
  bool go_on(Context& context);
  void settle(Context& context);
  void attempt(Context& context);
  Subject subject(const std::string& source) const;
  bool check_another_size(Context& context);
  void check(const std::string& source, Context& context);
  std::uint64_t start(const Address& port, const Message& request, int units,
                      std::int64_t wall_ms, Context& context);
  void ended(const EffectResult& end, Context& context);
  void checked(const Verdict& verdict, Context& context);
  void checked_kernelbench(const Verdict& verdict, Context& context);
  /// Whether the module that was just checked gives way to another.
  bool wants_kernelbench(const Verdict& verdict) const;
  bool take_kernelbench_trial();
  void report_kernelbench_module(const std::string& source);
  void report_kernels(const Plan& cut,
                      const std::vector<const SubgraphDone*>& chosen);
  void rank();
  void seek(Context& context);
  void kernelbench_settled(Context& context);
  bool is_better_kernelbench() const;
  bool is_kernelbench_better_than(const Timing& other,
                                  std::size_t kernels) const;
  void finish(Context& context);
  bool lacks_product() const;
  bool may_search_eager_contractions(const Context& context) const;
  bool wants_eager_contractions(const Context& context) const;
  bool suits(const Verdict& verdict) const;
  bool is_better_whole() const;
  void replace_whole(KernelBenchModule with);
  void ask_for_eager_contractions(Context& context);
  void eager_contractions_searched(const EagerContractionsSearched& searched,
                                   Context& context);
  void leave_eager_contractions(bool is_whole);
  std::int64_t left_ms(const Context& context) const;
  bool has_stand_ins() const;
  bool is_late(const Context& context) const { return left_ms(context) <= 0; }
  bool has_time_to_time(const Context& context) const;
  void probe_at_last(Context& context);
  void time(Context& context);
  void timed(const TimeReply& reply, Context& context);
  void timed_kernelbench(const TimeReply& reply, Context& context);
  void drop_all(Context& context);
  void take_all();
  void take_kernelbench();
  void drop_some(const std::string& why, Context& context);
  void probed(const ProbeReply* reply, Context& context);
  void give_up(const Failure& failure, Context& context);
  void deliver_what_there_is(Context& context);

  std::optional<Compose> compose_;
  Plan plan_;  ///< the cut at hand
  CutTrials trials_;
  PendingEffects effects_;
  /// Which module is being made.
  enum class Stage {
    whole,        ///< The module that weft's rule accepts.
    seeking,      ///< A search for kernels within KernelBench's tolerance.
    kernelbench,  ///< The check and the timing of the module with these.
  };
  Stage stage_ = Stage::whole;
  std::vector<const SubgraphDone*> chosen_;  ///< into compose_->results
  /// The module at hand is the framework's own forward.
  bool keeps_forward_ = false;
  /// Nearest to eager first: with so many changes a module is near to it, with
  /// so many it is not. The first change is the cut's stand-ins, where it has
  /// any, the others are these kernels.
  std::vector<const SubgraphDone*> ranked_;
  std::size_t within_ = 0, outside_ = 0, changes_ = 0;
  std::string kernelbench_source_;        ///< Blob: the module that is tried.
  KernelBenchModule kernelbench_module_;  ///< Its results.
  std::optional<Plan>
      eager_contractions_;  ///< the plan's; while it is at hand, the other
  bool is_eager_contractions_ =
      false;  ///< it was asked for, and then is at hand
  std::vector<SubgraphDone>
      eager_contractions_results_;  ///< of what only that has
  std::string source_;              ///< blob: model_new.py
  Report report_;
  bool is_checked_ = false;     ///< what source_ has is right
  bool is_settled_ = false;     ///< and is the whole, whatever else is tried
  std::uint64_t deadline_ = 0;  ///< the timer of the run's end
  std::uint64_t files_ = 0;     ///< the effect that writes them: all is decided
  bool was_slower_ = false;     ///< than eager, the first time it was timed
  std::uint64_t timing_ = 0;    ///< the effect that times the whole
  std::uint64_t making_ = 0;    ///< the one that checks or times a module
  std::uint64_t probe_ = 0;     ///< the effect that asks about the machine
  /// Of a module for any sizes: those that it is still to be checked at, and
  /// those that it is; empty: the problem's.
  std::vector<Sizes> judged_;
  Sizes sizes_;
  std::string sized_problem_;  ///< blob: the problem at those
  Verdict verdict_;            ///< at the problem's own
  bool over_ = false;
};

}  // namespace weft
