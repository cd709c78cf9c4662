// One Triton kernel under construction: its lines, the tensors that it takes,
// and the expressions that have names so far.
//
// A program handles a tile of points × inner elements. Everything is a tensor
// of two dimensions: what depends on the point alone is a column, what depends
// on the inner element alone is a row, and Triton broadcasts.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/choices/reasons.hpp"
#include "compiler/choices/triton_variants.hpp"
#include "compiler/loops/integers.hpp"
#include "compiler/text/count.hpp"
#include "compiler/text/number_text.hpp"
#include "compiler/triton/scalar.hpp"

namespace weft {

struct TritonLaunch {
  std::string kernel;
  Count programs;
  int warps = 4;
  int stages = 2;
  std::vector<std::string> tensors;
};

/// Memory between kernels.
struct TritonScratch {
  std::string name;
  std::int64_t elements = 0;
  DType dtype = DType::f32;
};

/// A whole source, as the nests add to it.
struct TritonModule {
  std::string kernels;
  std::vector<TritonLaunch> launches;
  std::vector<TritonScratch> scratch;
  std::set<std::string> helpers;
  std::vector<KernelReason> reasons;  ///< of each kernel
  bool free_rounding = false;         ///< see LoweringOptions
  /// Names of the sizes that it is for any of, which kernels take as their last
  /// arguments but for the type of positions, `integer`: 32 bits where these
  /// are enough at those sizes.
  std::span<const std::string_view> sizes{};
  bool for_sizes() const { return !sizes.empty(); }
  /// How far apart elements lie of what kernels read and write, at most.
  std::vector<std::int64_t> spans;
};

/// Warps for a tile at so many elements a thread.
int warps_for(std::int64_t tile, int per_thread);

class TritonKernel {
 public:
  TritonKernel(const Program& program, TritonModule& module);
  TritonKernel(const TritonKernel&) = delete;

  /// 64-bit positions, where 32 are not (or not at every size) enough: of all,
  /// or not of what differs within a tile.
  bool wide() const { return wide_; }
  bool has_wide_lanes() const { return has_wide_lanes_; }
  void set_wide(bool wide) { set_wide(wide, wide); }
  void set_wide(bool wide, bool wide_lanes) {
    wide_ = wide;
    has_wide_lanes_ = wide_lanes;
  }
  /// That wide type: "tl.int64", or what a launch says.
  std::string wide_type() const;
  /// "tl.program_id(0)", as wide as positions are.
  std::string program_id() const;

  void line(const std::string& text);
  void indent() { ++depth_; }
  void dedent() { --depth_; }

  /// Names the variables, whose product counts `position`, along that axis of
  /// the tile and under that mask ("" for none).
  void name_variables(const std::vector<LoopVar>& variables,
                      const std::string& position, Axis axis,
                      const std::string& mask);
  /// Says beforehand that variables are inner ones: what depends on them is
  /// not computed outside of their loop.
  void expect_inner(const std::vector<LoopVar>& variables);
  /// Forgets the inner variables and all that depends on them.
  void forget_inner();

  /// Prints what the expressions need; with `points_only`, just those parts
  /// that do not depend on inner variables.
  void compute(const std::vector<ExprId>& roots, bool points_only);
  /// Names that a block of lines introduced end with it.
  using Names = std::map<ExprId, std::string>;
  Names names() const { return scope_.names; }
  void set_names(Names names) { scope_.names = std::move(names); }

  std::string operand(ExprId id) const { return triton_operand(scope_, id); }
  std::string index(const Index& index) const {
    return triton_index(index, scope_.variables);
  }
  /// The mask of where all of these are in range.
  std::string mask_of(const std::vector<LoopVar>& variables) const;
  /// `inner`: it depends on inner variables.
  void set_result(int buffer, const std::string& text, bool inner);
  /// Where the variables are in range and `condition` holds ("" for none).
  void store(int buffer, const Index& offset, const std::string& value,
             const std::string& condition = "");
  /// A buffer that lines mention by its name.
  void use(int buffer) { used_.insert(buffer); }
  void use(const std::string& scratch) { scratch_used_.push_back(scratch); }
  void help(const std::string& helper) { module_.helpers.insert(helper); }

  /// Adds the kernel and its launch to the module.
  void finish(const Count& programs, int warps, int stages = 2);

 private:
  bool is_inner(ExprId id) const;

  const Program& program_;
  TritonModule& module_;
  TritonScope scope_;
  std::string body_;
  int depth_ = 1;
  bool wide_ = false;
  bool has_wide_lanes_ = false;
  int renamings_ = 0;
  std::set<int> inner_variables_;
  std::set<int> inner_results_;
  std::set<int> used_;
  std::vector<std::string> scratch_used_;
};

}  // namespace weft
