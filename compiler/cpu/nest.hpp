// Prints one loop nest: the points that threads share, and for each the passes
// over its inner variables.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/cpu/print.hpp"
#include "compiler/cpu/scalar.hpp"
#include "compiler/loops/kernel_reasons.hpp"
#include "compiler/loops/pass.hpp"
#include "compiler/loops/symbolic_loops.hpp"
#include "compiler/text/count.hpp"
#include "compiler/text/number_text.hpp"
#include "compiler/text/writer.hpp"

namespace weft {

class NestPrinter {
 public:
  NestPrinter(const Schedule& plan, const Nest& nest, const CpuVariant& variant,
              const LoopFacts& facts, Writer& out)
      : plan_(plan), nest_(nest), variant_(variant), facts_(facts), out_(out) {}

  void print();
  /// Why its loops are blocked and shared so; empty before print().
  const TileReason& tile_reason() const { return tile_reason_; }

 private:
  static std::string name(LoopVar v) { return "v" + text(v.id); }
  const Program& program() const { return plan_.program; }
  int id(const Stage& stage) const { return stage.results.front(); }
  std::string acc(const Stage& s) const { return "a" + text(id(s)); }
  std::string sum(const Stage& s) const { return "t" + text(id(s)); }
  std::int64_t vectors() const {
    return (block_ + variant_.vector_width - 1) / variant_.vector_width;
  }

  /// The pieces of that size in an extent.
  Count parts(std::int64_t extent, std::int64_t size) const {
    return parts_of(extent, size, variant_.for_sizes(), "/");
  }
  /// The elements by which loops over the variables are laid out.
  std::int64_t size_hint(const std::vector<LoopVar>& variables) const {
    return weft::size_hint(plan_, variables);
  }
  void choose_block();
  bool blocks_outside() const;
  void choose_cached();
  Index cache_index(const Pass& pass) const;
  const LoopVar* tile_variable() const;
  bool is_turned(const Scalar& load, LoopVar row) const;
  void print_tile(const Pass& pass, PrintScope scope, LoopVar row);
  void open_points(bool parallel);
  void print_split();
  void print_chunks(const Pass& pass, const Count& chunks, const Count& points);
  void merge_chunks(const Pass& pass, const Count& chunks, const Count& points);
  void print_pass(const Pass& pass);
  void print_loops(const Pass& pass, const PrintScope& scope,
                   std::size_t depth);
  void print_vectors(const Pass& pass, PrintScope scope,
                     const LoopVar* grouped = nullptr);
  void print_body(const Pass& pass, PrintScope scope);
  void print_group(const Pass& pass, PrintScope scope, LoopVar row);
  void step(const Pass& pass, const PrintScope& scope, bool local);
  void declare_scan(const Stage& scan);
  void print_scan(const Pass& pass, PrintScope& scope);
  bool is_scanned(const Scalar& node) const;
  void print_add(const Stage& stage, const PrintScope& scope);
  void hoist_columns(const Pass& pass, PrintScope& scope);
  void declare(const Pass& pass, bool totals);
  void merge_totals(const Pass& pass);
  void finish(const Pass& pass);
  void join_unrolled(const Pass& pass, const Stage& stage);
  void spill(const Stage& stage);
  std::string result_text(const Stage& stage, std::size_t i) const;
  void emit(const Pass& pass, PrintScope& scope, std::size_t level);
  std::size_t level_of(const Pass& pass, ExprId id) const;
  std::size_t vector_level(const Pass& pass) const;
  bool uses_inner(const Pass& pass, ExprId id) const;
  PrintScope scope_of(const Pass& pass) const;
  std::vector<ExprId> expressions(const Pass& pass) const;
  std::size_t plain_loops(const Pass& pass) const;
  int unroll(const Pass& pass) const;
  int row_group(const Pass& pass, std::size_t depth) const;
  std::int64_t piece_elements(const Pass& pass) const;
  bool pieces_of_loop(const Pass& pass, std::size_t depth) const;
  bool needs_totals(const Pass& pass) const;
  std::string lower_bound(std::size_t depth) const;
  std::string upper_bound(const Pass& pass, std::size_t depth) const;
  Count chunks(const Pass& pass) const;

  const Schedule& plan_;
  const Nest& nest_;
  const CpuVariant& variant_;
  const LoopFacts& facts_;
  Writer& out_;
  std::int64_t block_ = 1;
  TileReason tile_reason_;
  std::set<ExprId> cached_;  ///< values of one pass that a later one needs
  std::set<ExprId> halved_;  ///< see PrintScope
  std::set<ExprId> stored_;  ///< those that a pass has put away by now
};

}  // namespace weft
