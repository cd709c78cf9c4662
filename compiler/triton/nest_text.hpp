// Prints the kernels of one loop nest: which program has which points, and how
// it goes over their inner elements.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/loops/kernel_reasons.hpp"
#include "compiler/loops/symbolic_loops.hpp"
#include "compiler/triton/nest.hpp"
#include "compiler/triton/reduction.hpp"

namespace weft {

/// A power of two that no tile comes to.
inline constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;

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
  /// Why its kernels have their tile; empty before print().
  const TileReason& tile_reason() const { return tile_reason_; }

 private:
  /// How a program goes over the inner elements of its points.
  enum class Traversal {
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

  // elements.cpp
  void print_elements();
  std::optional<LoopVar> transposed_loop() const;
  bool fills_rows(std::int64_t extent) const;
  std::int64_t row_block(std::int64_t extent) const;

  // rows.cpp
  void print_rows();
  /// The traversal, and why.
  std::pair<Traversal, std::string> choose_traversal() const;
  /// Most points of a window for each thread.
  int window_points() const;
  std::int64_t recomputing_points(std::int64_t width) const;
  int reductions_max() const;
  Tile tile_for(Traversal traversal) const;
  Tile transposed_tile(LoopVar transposed) const;
  /// Names points that are contiguous along the last variable in what is read,
  /// and along `transposed` in what is stored: blocks of both. Returns the
  /// number of programs.
  Count open_transposed_points(TritonKernel& kernel, LoopVar transposed,
                               Tile tile) const;
  void print_passes(TritonKernel& kernel, Tile tile, Traversal traversal,
                    const std::string& of_points) const;
  void open_persistent(TritonKernel& kernel, const Pass& pass) const;
  void print_pass(TritonKernel& kernel, const Pass& pass, Tile tile,
                  Traversal traversal) const;
  void print_points(TritonKernel& kernel, const Pass& pass,
                    const std::string& shape) const;
  void print_walk(TritonKernel& kernel, const Pass& pass,
                  const std::vector<TritonReduction>& reductions, Tile tile,
                  Traversal traversal) const;
  void print_tile(TritonKernel& kernel, const Pass& pass,
                  const std::vector<TritonReduction>& reductions, Tile tile,
                  bool whole) const;
  void print_scan(TritonKernel& kernel, const Pass& pass, Tile tile,
                  Traversal traversal) const;
  void print_scan_tile(TritonKernel& kernel, const Pass& pass,
                       const TritonReduction& reduction,
                       const std::string& carry, Tile tile) const;

  // interior.cpp
  //
  // The tile of a window, small enough that some tiles are interior.
  Tile interior_tile(Tile tile) const;
  bool has_interior(Tile tile) const;
  void print_interior(TritonKernel& kernel, Tile tile,
                      const std::string& of_points) const;

  // split.cpp
  void print_split();
  void print_shares(const Pass& pass, Tile tile, const Count& share,
                    std::int64_t shares);
  void print_merge(const Pass& pass, std::int64_t shares);

  const Program& program() const { return plan_.program; }
  const TritonNestChoices& choices() const {
    return facts_.choices.triton.nest;
  }
  /// Elements of the longest row; for a symbolic row, more than any tile.
  std::int64_t longest() const;
  // tiles.hpp
  bool is_symbolic(const std::vector<LoopVar>& variables) const;
  /// A power of two that a tile along these need not exceed.
  std::int64_t tile_max(const std::vector<LoopVar>& variables) const;
  Count tiles_of(const std::vector<LoopVar>& variables,
                 std::int64_t extent) const;
  bool is_ragged(const std::vector<LoopVar>& variables,
                 std::int64_t extent) const;
  void choose_width(TritonKernel& kernel, bool has_wide_lanes) const;
  /// Names the points that a program has, `height` of them; `id` says which
  /// program it is. Returns a point's position among all points.
  std::string open_points(TritonKernel& kernel, const std::string& id,
                          std::int64_t height) const;
  Count point_programs(std::int64_t height) const;
  bool blocks_last() const;
  /// True if indices that differ within a tile need 64 bits.
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
             const TritonReduction& reduction) const;

  const Schedule& plan_;
  const Nest& nest_;
  const TritonVariant& variant_;
  const GpuFacts& facts_;
  TritonModule& module_;
  std::vector<Pass> passes_;
  TileReason tile_reason_;
};

}  // namespace weft
