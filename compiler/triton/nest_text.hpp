// Prints the kernels of one loop nest: which program has which points, and how
// it goes over their inner elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/loops/growing.hpp"
#include "compiler/triton/fold.hpp"
#include "compiler/triton/nest.hpp"

namespace weft {

class NestText {
 public:
  NestText(const Schedule& plan, const Nest& nest, const TritonVariant& variant,
           const GpuFacts& facts, TritonModule& module)
      : plan_(plan),
        nest_(nest),
        variant_(variant),
        facts_(facts),
        module_(module),
        passes_(passes_of(plan.program, nest)) {}

  void print();

 private:
  /// How a program goes over the inner elements of its points.
  enum class Way {
    persistent,  ///< all at once, in registers for later passes
    walk,        ///< a tile after the other
    window  ///< one after the other, each with all points: few and scattered
  };
  struct Tile {
    std::int64_t height = 1;  ///< points
    std::int64_t width = 1;   ///< inner elements, or points along another axis
    std::string shape() const;
    std::string column() const;  ///< the shape of one value a point
  };

  // triton_elements.cpp
  void print_elements();
  std::optional<LoopVar> crossing() const;
  bool fills_rows(std::int64_t extent) const;
  std::int64_t row_block(std::int64_t extent) const;

  // triton_rows.cpp
  void print_rows();
  Way way() const;
  /// Most points of a window for each thread.
  int window_points() const;
  std::int64_t recomputing_points(std::int64_t width) const;
  Tile tile_for(Way way) const;
  Tile tile_across(LoopVar across) const;
  /// Names points that lie side by side along the last variable in what is
  /// read, along `across` in what is stored: blocks of both. Returns how many
  /// programs there are.
  Count open_points_across(TritonKernel& kernel, LoopVar across,
                           Tile tile) const;
  void print_passes(TritonKernel& kernel, Tile tile, Way way,
                    const std::string& of_points) const;
  void open_persistent(TritonKernel& kernel, const Pass& pass) const;
  void print_pass(TritonKernel& kernel, const Pass& pass, Tile tile,
                  Way way) const;
  void print_points(TritonKernel& kernel, const Pass& pass,
                    const std::string& shape) const;
  void print_walk(TritonKernel& kernel, const Pass& pass,
                  const std::vector<TritonFold>& folds, Tile tile,
                  Way way) const;
  void print_tile(TritonKernel& kernel, const Pass& pass,
                  const std::vector<TritonFold>& folds, Tile tile,
                  bool whole) const;
  void print_scan(TritonKernel& kernel, const Pass& pass, Tile tile,
                  Way way) const;
  void print_scan_tile(TritonKernel& kernel, const Pass& pass,
                       const TritonFold& fold, const std::string& carry,
                       Tile tile) const;

  // triton_interior.cpp
  /// The tile of a window, so that some have an interior.
  Tile interior_tile(Tile tile) const;
  bool has_interior(Tile tile) const;
  void print_interior(TritonKernel& kernel, Tile tile,
                      const std::string& of_points) const;

  // triton_split.cpp
  void print_split();
  void print_shares(const Pass& pass, Tile tile, const Count& share,
                    std::int64_t shares);
  void print_merge(const Pass& pass, std::int64_t shares);

  const Program& program() const { return plan_.program; }
  const TritonNestChoices& choices() const {
    return facts_.choices.triton.nest;
  }
  /// Elements of the longest row; of one that grows, more than any tile.
  std::int64_t longest() const;
  // tiles.hpp
  bool grows(const std::vector<LoopVar>& variables) const;
  /// A power of two that a tile along these need not exceed.
  std::int64_t tile_max(const std::vector<LoopVar>& variables) const;
  Count tiles_of(const std::vector<LoopVar>& variables,
                 std::int64_t extent) const;
  bool is_ragged(const std::vector<LoopVar>& variables,
                 std::int64_t extent) const;
  void choose_width(TritonKernel& kernel, bool has_wide_lanes) const;
  /// Names the points that a program has, `height` of them; which program of
  /// how many is said by `id`. Returns where a point stands among all.
  std::string open_points(TritonKernel& kernel, const std::string& id,
                          std::int64_t height) const;
  Count point_programs(std::int64_t height) const;
  bool blocks_last() const;
  /// Whether what differs within a tile needs 64 bits, if anything does.
  bool has_wide_lanes() const;
  /// Names inner variables at `first` + 0, 1, … width - 1; `ragged`: these may
  /// lie behind the last.
  static void open_inner(TritonKernel& kernel,
                         const std::vector<LoopVar>& variables,
                         const std::string& first, std::int64_t width,
                         bool ragged);
  void store_stage(TritonKernel& kernel, const Stage& stage,
                   const std::string& shape) const;
  void spill(TritonKernel& kernel, const Stage& stage,
             const TritonFold& fold) const;

  const Schedule& plan_;
  const Nest& nest_;
  const TritonVariant& variant_;
  const GpuFacts& facts_;
  TritonModule& module_;
  std::vector<Pass> passes_;
};

}  // namespace weft
