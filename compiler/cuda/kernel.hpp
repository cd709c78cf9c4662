// One CUDA kernel under construction: its lines, its buffers, and the
// expressions that have names so far.
//
// A thread takes `vector_width` consecutive values (lanes) of one loop variable
// at a time. Contiguous accesses become vector loads and stores; everything
// else is computed in an unrolled loop over `l`. Values that are the same for
// all lanes are computed before that loop.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/choices/reasons.hpp"
#include "compiler/cuda/scalar.hpp"
#include "compiler/loops/schedule.hpp"
#include "compiler/text/writer.hpp"

namespace weft {

/// Of a block, where nothing asks for another number (as write_row() of the
/// prelude has it).
inline constexpr int kBlockThreads = 256;

/// What a loop's variable is called.
inline std::string name_of(LoopVar variable) {
  return "v" + std::to_string(variable.id);
}

struct CudaLaunch {
  std::string kernel;
  std::int64_t blocks = 1;
  int threads = kBlockThreads;
  int blocks_per_sm = 1;          ///< at least so many must fit
  int cluster = 1;                ///< blocks of a cluster
  bool cooperative = false;       ///< all blocks must run at once
  std::int64_t shared_bytes = 0;  ///< dynamic
  std::vector<std::string> arguments;
};

/// Memory between kernels.
struct CudaScratch {
  std::string name;
  std::int64_t bytes = 0;
};

/// A whole source, as the nests add to it.
struct CudaModule {
  std::string kernels;
  std::vector<CudaLaunch> launches;
  std::vector<CudaScratch> scratch;
  std::set<std::string> helpers;
  std::vector<KernelReason> reasons;  ///< of each kernel
  std::set<std::string> sections;     ///< of the prelude
  bool varies = true;                 ///< variants of it are worth trying
  bool approximate = false;           ///< functions need no more than 16 bits
  bool free_rounding = false;         ///< see LoweringOptions
  bool streams = false;  ///< rows go through shared memory (stream.cpp)
};

class CudaKernel {
 public:
  /// `lane`: the loop variable that lanes count, -1 for none.
  CudaKernel(const Program& program, CudaModule& module, int lane,
             int vector_width, bool wide);
  CudaKernel(const CudaKernel&) = delete;

  Writer& out() { return out_; }
  int vector_width() const { return vector_width_; }
  /// "[l]", or "[0]" where there is one lane.
  std::string at_lane() const { return vector_width_ > 1 ? "[l]" : "[0]"; }
  const std::string& index_type() const { return scope_.index_type; }

  /// Declares the variables, whose product counts `position`.
  void declare(const std::vector<LoopVar>& variables,
               const std::string& position);
  /// Names a variable, or says what it is where it has no name.
  void set_variable(LoopVar variable, const std::string& text) {
    scope_.variables[variable.id] = text;
  }
  /// Says which variables are inner ones: what depends on them is not computed
  /// outside of their loop.
  void expect_inner(const std::vector<LoopVar>& variables);

  /// Prints what the expressions need and is the same for all lanes (including
  /// vector loads). With `points_only`, prints what does not depend on inner
  /// variables.
  void compute(const std::vector<ExprId>& roots, bool points_only);
  /// Lanes may lie before or behind the row: `first`, the position of lane 0,
  /// is known as "r", and the row ends at `end`. Contiguous accesses count as
  /// aligned then, whatever their index says.
  void set_shifted(std::string end) { shifted_ = std::move(end); }
  /// Lanes lie `distance` elements apart, and lanes from `end` on do not exist:
  /// in the loop over lanes, `inside` says so, and `column` is always a lane
  /// that exists. No access is a vector access.
  void set_far_lanes(std::int64_t distance, std::int64_t end) {
    lane_distance_ = distance;
    lane_end_ = end;
  }
  /// "if (…) ", where a lane may not exist; inside the loop over lanes.
  std::string if_lane_inside() const;
  void open_lanes();
  /// Prints the rest of what they need, inside the loop over lanes.
  void compute_lanes(const std::vector<ExprId>& roots);
  void close_lanes();

  /// From here on, `power` is known to be an exponential of something not above
  /// 0, and the buffer `sum` to be the sum of all of them, at least 1.
  void set_shares(ExprId power, int sum);

  /// Names that a block of lines introduced end with it.
  struct Names {
    std::map<ExprId, std::string> values;
    std::map<ExprId, std::string> inverses;
  };
  Names names() const { return {scope_.names, inverses_}; }
  void set_names(Names names) {
    scope_.names = std::move(names.values);
    inverses_ = std::move(names.inverses);
  }

  std::string operand(ExprId id) const { return cuda_operand(scope_, id); }
  std::string index(const Index& index) const {
    return cuda_index(index, scope_.variables);
  }
  std::string type(ExprId id) const { return cuda_variable_type(scope_, id); }
  /// Whether lanes are contiguous and aligned there: a vector load or store.
  bool is_vector_access(const Index& index) const;
  bool is_vector_load(ExprId id) const;
  /// The call that reads a vector there.
  std::string load_call(const std::string& address) const;
  /// `by_lane`: it is another for each lane; `inner`: it depends on inner
  /// variables.
  void set_result(int buffer, const std::string& text, bool by_lane,
                  bool inner = false);
  const std::string& result(int buffer) const {
    return scope_.results.at(buffer);
  }
  /// The text of a vector that was read before and is persistent.
  void set_persistent(ExprId load, const std::string& text) {
    persistent_[load] = text;
  }
  void forget_persistent() { persistent_.clear(); }
  /// What a load reads is in registers: its text, for one lane.
  void set_at_hand(ExprId load, const std::string& text) {
    scope_.at_hand[load] = text;
  }
  void use(int buffer) { used_.insert(buffer); }
  /// A parameter that is no buffer of the program: its type, and scratch.
  void use(const std::string& type, const std::string& scratch);
  void need(const std::string& section) { module_.sections.insert(section); }
  /// Exponentials of what is not above 0; an approximate one serves as well.
  void need_exp_below() {
    if (!module_.approximate) need("exp_below");
  }

  /// Adds the kernel and its launch to the module.
  void finish(CudaLaunch launch);
  /// The same, with a thread for each of so many points.
  void finish(std::int64_t points, int threads);

 private:
  bool depends_on_inner(ExprId id) const;
  bool depends_on_lane(ExprId id) const;
  void print(ExprId id);
  std::string text_of(ExprId id) const;
  bool is_share(const Scalar& division) const;
  void invert_divisors(const std::vector<ExprId>& roots);

  const Program& program_;
  CudaModule& module_;
  CudaScope scope_;
  Writer out_;
  int lane_;
  int vector_width_;
  std::string shifted_;  ///< where rows end; empty: every lane exists
  std::string lane_text_;
  std::int64_t lane_distance_ = 1;
  std::int64_t lane_end_ = 0;
  std::map<ExprId, std::string> inverses_;  ///< of divisors
  std::map<ExprId, int> shares_;            ///< powers, and their sums
  std::set<int> inner_variables_;
  std::set<int> inner_results_;
  std::set<int> lane_results_;
  std::map<ExprId, std::string> persistent_;
  std::set<int> used_;
  std::vector<std::pair<std::string, std::string>> scratch_used_;
};

}  // namespace weft
