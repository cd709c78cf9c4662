#include "compiler/cpu/nest.hpp"

#include <algorithm>

namespace weft {

// In rows the last inner loop runs over vectors; in columns all are plain.
std::size_t NestPrinter::plain_loops(const Pass& pass) const {
  if (nest_.outer_reduction) return pass.inner.size();
  return pass.inner.empty() ? 0 : pass.inner.size() - 1;
}

std::size_t NestPrinter::vector_level(const Pass& pass) const {
  return plain_loops(pass) + 1;
}

// How deep in the pass's loops an expression can first be computed.
std::size_t NestPrinter::level_of(const Pass& pass, ExprId id) const {
  std::size_t level = 0;
  const LoopVar* tiled = tile_variable();
  for (const ExprId e : program().arena.reachable({id})) {
    const Scalar& node = program().arena[e];
    const bool at_hand = node.op == ScalarOp::load && node.index.empty();
    if ((at_hand && nest_.outer_reduction) || is_scanned(node)) {
      level = vector_level(pass);
    }
    for (const Index& index : node.index) {
      for (std::size_t i = 0; i < pass.inner.size(); ++i) {
        if (index.uses(pass.inner[i].id)) level = std::max(level, i + 1);
      }
      const bool of_tile = tiled != nullptr && index.uses(tiled->id);
      if (of_tile ||
          (nest_.outer_reduction && index.uses(nest_.outer.back().id))) {
        level = vector_level(pass);
      }
    }
  }
  return level;
}

bool NestPrinter::uses_inner(const Pass& pass, ExprId id) const {
  for (const ExprId e : program().arena.reachable({id})) {
    if (is_scanned(program().arena[e])) return true;
    for (const Index& index : program().arena[e].index) {
      for (const LoopVar& v : pass.inner) {
        if (index.uses(v.id)) return true;
      }
    }
  }
  return false;
}

std::vector<ExprId> NestPrinter::expressions(const Pass& pass) const {
  std::vector<ExprId> roots;
  for (const Stage* stage : pass.stages) {
    roots.push_back(stage->value);
    if (stage->position >= 0) roots.push_back(stage->position);
  }
  return program().arena.reachable(roots);
}

PrintScope NestPrinter::scope_of(const Pass& pass) const {
  PrintScope scope;
  scope.plan = &plan_;
  scope.halved = halved_;
  if (nest_.outer_reduction) {
    scope.vector_variable = nest_.outer.back().id;
  } else if (!pass.inner.empty()) {
    scope.vector_variable = pass.inner.back().id;
  }
  if (nest_.split) return scope;
  for (const Stage& stage : nest_.stages) {
    for (std::size_t i = 0; i < stage.results.size(); ++i) {
      scope.results[stage.results[i]] = result_text(stage, i);
    }
  }
  return scope;
}

void NestPrinter::emit(const Pass& pass, PrintScope& scope, std::size_t level) {
  const bool vectors = level == vector_level(pass);
  for (const ExprId id : expressions(pass)) {
    const Scalar& node = program().arena[id];
    const bool silent = node.op == ScalarOp::constant ||
                        (node.op == ScalarOp::load && node.index.empty());
    if (silent || scope.names.contains(id)) continue;
    if (!vectors && level_of(pass, id) != level) continue;
    const std::string address =
        "kept" + text(id) + " + " + cache_index(pass).text();
    const std::string value = stored_.contains(id)
                                  ? "load(" + address + ", lanes)"
                                  : expression_text(scope, id, vectors);
    scope.names[id] = "x" + text(id);
    out_.line("const " + vector_type(node.dtype) + " x" + text(id) + " = " +
              value + ";");
    if (cached_.contains(id) && !stored_.contains(id)) {
      out_.line("store<float, false>(" + address + ", x" + text(id) +
                ", lanes);");
    }
  }
}

std::string NestPrinter::lower_bound(std::size_t depth) const {
  return nest_.split && depth == 0 ? "from" : "0";
}

std::string NestPrinter::upper_bound(const Pass& pass,
                                     std::size_t depth) const {
  return nest_.split && depth == 0 ? "to" : text(pass.inner[depth].extent);
}

// One step of each reduction; `local`: into the copies that print_group()
// keeps.
void NestPrinter::step(const Pass& pass, const PrintScope& scope, bool local) {
  for (const Stage* stage : pass.reductions()) {
    std::string into =
        acc(*stage) + (nest_.outer_reduction ? "[at]" : "[slot]");
    if (local) into = "k" + text(id(*stage));
    std::string call =
        into + ".step(lanes, " + operand_text(scope, stage->value);
    if (stage->position >= 0) {
      call += ", " + operand_text(scope, stage->position);
    }
    out_.line(call + ");");
  }
}

void NestPrinter::print_body(const Pass& pass, PrintScope scope) {
  if (nest_.outer_reduction) {
    out_.line("const int64_t at = (" + name(nest_.outer.back()) +
              " - first) / W;");
    out_.line("(void)at;");
  }
  if (pass.scan() != nullptr) print_scan(pass, scope);
  emit(pass, scope, vector_level(pass));
  step(pass, scope, false);
  for (const Stage* stage : pass.stages) {
    if (stage->is_add) print_add(*stage, scope);
    if (!stage->is_store()) continue;
    out_.line(store_text(scope, program().buffers[stage->output].name,
                         stage->offset, operand_text(scope, stage->value)));
  }
}

// Several rows of a column at once, with the accumulators in registers: else
// each row loads and stores them.
void NestPrinter::print_group(const Pass& pass, PrintScope scope, LoopVar row) {
  const std::string rows = text(variant_.unroll);
  out_.line("const int64_t at = (" + name(nest_.outer.back()) +
            " - first) / W;");
  for (const Stage* stage : pass.reductions()) {
    out_.line("auto k" + text(id(*stage)) + " = " + acc(*stage) + "[at];");
  }
  out_.line("#pragma GCC unroll " + rows);
  out_.open("for (int64_t row = 0; row < " + rows + "; ++row)");
  out_.line("const int64_t " + name(row) + " = group + row;");
  emit(pass, scope, vector_level(pass));
  step(pass, scope, true);
  out_.close();
  for (const Stage* stage : pass.reductions()) {
    out_.line(acc(*stage) + "[at] = k" + text(id(*stage)) + ";");
  }
}

void NestPrinter::print_vectors(const Pass& pass, PrintScope scope,
                                const LoopVar* grouped) {
  if (scope.vector_variable < 0) {
    out_.open("");
    out_.line("constexpr Part lanes{1};");
    out_.line("constexpr int slot = 0;");
    out_.line("(void)lanes, (void)slot;");
    print_body(pass, std::move(scope));
    out_.close();
    return;
  }
  const std::string v = "v" + text(scope.vector_variable);
  std::string from = "first";
  std::string to = "last";
  bool pieces = false;
  if (!nest_.outer_reduction) {
    const std::size_t depth = pass.inner.size() - 1;
    from = lower_bound(depth);
    to = upper_bound(pass, depth);
    pieces = pieces_of_loop(pass, depth);
  }
  if (pieces) {
    out_.open("for (int64_t piece = " + from + "; piece < " + to +
              "; piece += " + text(piece_elements(pass)) + ")");
    out_.line("const int64_t end = std::min<int64_t>(" + to + ", piece + " +
              text(piece_elements(pass)) + ");");
    declare(pass, false);
    from = "piece";
    to = "end";
  }
  out_.open("for_lanes<" + text(unroll(pass)) + ">(" + from + ", " + to +
            ", [&](int64_t " + v + ", auto lanes, auto slot) BODY");
  out_.line("(void)slot;");
  if (grouped != nullptr) {
    print_group(pass, std::move(scope), *grouped);
  } else if (const LoopVar* row = tile_variable()) {
    print_tile(pass, std::move(scope), *row);
  } else {
    print_body(pass, std::move(scope));
  }
  out_.close("});");
  if (pieces) {
    merge_totals(pass);
    out_.close();
  }
}

void NestPrinter::print_loops(const Pass& pass, const PrintScope& outer,
                              std::size_t depth) {
  PrintScope scope = outer;
  emit(pass, scope, depth);
  if (depth == plain_loops(pass)) {
    print_vectors(pass, std::move(scope));
    return;
  }
  const std::string v = name(pass.inner[depth]);
  std::string from = lower_bound(depth);
  std::string to = upper_bound(pass, depth);
  const bool pieces = pieces_of_loop(pass, depth);
  if (pieces) {
    std::int64_t inside = 1;
    for (std::size_t i = depth + 1; i < pass.inner.size(); ++i) {
      inside *= pass.inner[i].extent;
    }
    const std::int64_t step =
        std::max<std::int64_t>(1, piece_elements(pass) / inside);
    out_.open("for (int64_t piece = " + from + "; piece < " + to +
              "; piece += " + text(step) + ")");
    out_.line("const int64_t end = std::min<int64_t>(" + to + ", piece + " +
              text(step) + ");");
    declare(pass, false);
    from = "piece";
    to = "end";
  }
  if (const int rows = row_group(pass, depth); rows > 1) {
    out_.line("int64_t group = " + from + ";");
    out_.open("for (; group + " + text(rows) + " <= " + to +
              "; group += " + text(rows) + ")");
    print_vectors(pass, scope, &pass.inner[depth]);
    out_.close();
    from = "group";
  }
  out_.open("for (int64_t " + v + " = " + from + "; " + v + " < " + to +
            "; ++" + v + ")");
  print_loops(pass, scope, depth + 1);
  out_.close();
  if (pieces) {
    merge_totals(pass);
    out_.close();
  }
}

// What every row of a column needs alike is computed once for the block.
void NestPrinter::hoist_columns(const Pass& pass, PrintScope& scope) {
  if (!nest_.outer_reduction || size_hint(pass.inner) < 4) return;
  std::set<ExprId> wanted;
  const auto all = expressions(pass);
  for (const ExprId id : all) {
    if (!uses_inner(pass, id)) continue;
    for (const ExprId argument : program().arena[id].arguments) {
      const Scalar& node = program().arena[argument];
      if (node.op == ScalarOp::call && !uses_inner(pass, argument) &&
          level_of(pass, argument) == vector_level(pass)) {
        wanted.insert(argument);
      }
    }
  }
  if (wanted.empty()) return;
  for (const ExprId id : wanted) {
    out_.line(vector_type(program().arena[id].dtype) + " h" + text(id) + "[" +
              text(vectors()) + "];");
  }
  out_.open("for_lanes<1>(first, last, [&](int64_t " +
            name(nest_.outer.back()) + ", auto lanes, auto) BODY");
  out_.line("(void)lanes;");
  out_.line("const int64_t at = (" + name(nest_.outer.back()) +
            " - first) / W;");
  PrintScope inside = scope;
  for (const ExprId id : program().arena.reachable(
           std::vector<ExprId>(wanted.begin(), wanted.end()))) {
    const Scalar& node = program().arena[id];
    if (node.op == ScalarOp::constant || inside.names.contains(id)) continue;
    if (node.op == ScalarOp::load && node.index.empty()) continue;
    const std::string value = expression_text(inside, id, true);
    inside.names[id] = "x" + text(id);
    out_.line("const " + vector_type(node.dtype) + " x" + text(id) + " = " +
              value + ";");
  }
  for (const ExprId id : wanted) {
    out_.line("h" + text(id) + "[at] = x" + text(id) + ";");
    scope.names[id] = "h" + text(id) + "[at]";
  }
  out_.close("});");
}

void NestPrinter::print_pass(const Pass& pass) {
  std::string notes;
  for (const Stage* stage : pass.stages) {
    notes += (notes.empty() ? "// " : "; ") + stage->note;
  }
  out_.line(notes);
  const bool totals = pass.has_reductions() && needs_totals(pass);
  // Of columns the accumulators are read again by later passes.
  if (pass.has_reductions() && (!totals || nest_.outer_reduction))
    declare(pass, false);
  if (totals) declare(pass, true);
  if (pass.scan() != nullptr) declare_scan(*pass.scan());
  out_.open("");
  PrintScope scope = scope_of(pass);
  hoist_columns(pass, scope);
  print_loops(pass, scope, 0);
  out_.close();
  if (pass.has_reductions()) finish(pass);
  for (const ExprId id : expressions(pass)) {
    if (cached_.contains(id)) stored_.insert(id);
  }
}

void NestPrinter::print() {
  std::vector<ExprId> roots;
  for (const Stage& stage : nest_.stages) {
    const auto own = roots_of(stage);
    roots.insert(roots.end(), own.begin(), own.end());
  }
  halved_ = halved_expressions(program().arena, roots);
  choose_block();
  out_.open("");
  if (nest_.split) {
    print_split();
  } else {
    choose_cached();
    open_points(nest_.parallel);
    for (const ExprId id : cached_) {
      out_.line("alignas(64) float kept" + text(id) + "[" +
                text(extent_of(nest_.stages.front().inner)) + "];");
    }
    for (const Pass& pass : passes_of(program(), nest_)) print_pass(pass);
    out_.close();
  }
  out_.close();
}

}  // namespace weft
