#include "compiler/cpu_print.hpp"

#include <algorithm>

#include "compiler/cpu_prelude.hpp"
#include "compiler/cpu_scalar.hpp"

namespace weft {
namespace {

// Sums are taken in pieces of about this many steps of an accumulator, and the
// pieces summed: the rounding error then grows with the square root of the
// count.
constexpr std::int64_t kPieceSteps = 64;
constexpr std::int64_t kPieceRows = 32;

std::string text(std::int64_t number) { return std::to_string(number); }
std::string name(LoopVar v) { return "v" + text(v.id); }

/// Lines with indentation.
class Writer {
 public:
  void line(const std::string& content) {
    out_ += std::string(2 * depth_, ' ') + content + "\n";
  }
  void open(const std::string& content) {
    line(content + " {");
    ++depth_;
  }
  void close(const std::string& tail = "}") {
    --depth_;
    line(tail);
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
  int depth_ = 0;
};

/// Stages that share one walk over the inner variables.
struct Pass {
  std::vector<const Stage*> stages;
  std::vector<LoopVar> inner;
  std::vector<const Stage*> folding() const {
    std::vector<const Stage*> list;
    for (const Stage* stage : stages) {
      if (stage->folds) list.push_back(stage);
    }
    return list;
  }
  bool folds() const { return !folding().empty(); }
};

std::string reducer(const Program& program, const Stage& stage) {
  const DType dtype = program.arena[stage.value].dtype;
  const std::string type = "<" + vector_type(dtype) + ">";
  const bool truth = dtype == DType::boolean;
  switch (stage.fold) {
    case Fold::sum:
      return "Sum" + type;
    case Fold::prod:
      return "Product" + type;
    case Fold::max:
      return (truth ? "Any" : "Max") + type;
    case Fold::min:
      return (truth ? "All" : "Min") + type;
    case Fold::argmax:
      return "ArgMax" + type;
    case Fold::argmin:
      break;
  }
  return "ArgMin" + type;
}

bool reads(const Program& program, const Stage& stage, const Pass& pass) {
  for (const ExprId id : program.arena.reachable({stage.value})) {
    const Scalar& node = program.arena[id];
    if (node.op != ScalarOp::load) continue;
    for (const Stage* other : pass.stages) {
      if (std::find(other->results.begin(), other->results.end(),
                    node.buffer) != other->results.end()) {
        return true;
      }
    }
  }
  return false;
}

std::vector<Pass> passes_of(const Program& program, const Nest& nest) {
  std::vector<Pass> passes;
  for (const Stage& stage : nest.stages) {
    const bool joins = !passes.empty() && passes.back().inner == stage.inner &&
                       !reads(program, stage, passes.back());
    if (!joins) passes.push_back({{}, stage.inner});
    passes.back().stages.push_back(&stage);
  }
  return passes;
}

class NestPrinter {
 public:
  NestPrinter(const Schedule& plan, const Nest& nest, const CpuVariant& variant,
              const CpuFacts& facts, Writer& out)
      : plan_(plan), nest_(nest), variant_(variant), facts_(facts), out_(out) {}

  void print();

 private:
  const Program& program() const { return plan_.program; }
  int id(const Stage& stage) const { return stage.results.front(); }
  std::string acc(const Stage& s) const { return "a" + text(id(s)); }
  std::string sum(const Stage& s) const { return "t" + text(id(s)); }
  std::int64_t vectors() const {
    return (block_ + variant_.lanes - 1) / variant_.lanes;
  }

  void choose_block();
  bool blocks_outside() const;
  void open_points(bool parallel);
  void print_split();
  void print_pass(const Pass& pass);
  void print_loops(const Pass& pass, const PrintScope& scope,
                   std::size_t depth);
  void print_vectors(const Pass& pass, PrintScope scope);
  void print_body(const Pass& pass, PrintScope scope);
  void hoist_columns(const Pass& pass, PrintScope& scope);
  void declare(const Pass& pass, bool totals);
  void merge_totals(const Pass& pass);
  void finish(const Pass& pass);
  void emit(const Pass& pass, PrintScope& scope, std::size_t level);
  std::size_t level_of(const Pass& pass, ExprId id) const;
  std::size_t vector_level(const Pass& pass) const;
  bool uses_inner(const Pass& pass, ExprId id) const;
  PrintScope scope_of(const Pass& pass) const;
  std::vector<ExprId> expressions(const Pass& pass) const;
  std::size_t plain_loops(const Pass& pass) const;
  int unroll(const Pass& pass) const;
  std::int64_t piece_elements(const Pass& pass) const;
  bool pieces_of_loop(const Pass& pass, std::size_t depth) const;
  bool needs_totals(const Pass& pass) const;
  std::string lower_bound(std::size_t depth) const;
  std::string upper_bound(const Pass& pass, std::size_t depth) const;
  std::int64_t chunks(const Pass& pass) const;

  const Schedule& plan_;
  const Nest& nest_;
  const CpuVariant& variant_;
  const CpuFacts& facts_;
  Writer& out_;
  std::int64_t block_ = 1;
};

// In rows the last inner loop runs over vectors; in columns all are plain.
std::size_t NestPrinter::plain_loops(const Pass& pass) const {
  if (nest_.columns) return pass.inner.size();
  return pass.inner.empty() ? 0 : pass.inner.size() - 1;
}

std::size_t NestPrinter::vector_level(const Pass& pass) const {
  return plain_loops(pass) + 1;
}

// How deep in the pass's loops an expression can first be computed.
std::size_t NestPrinter::level_of(const Pass& pass, ExprId id) const {
  std::size_t level = 0;
  for (const ExprId e : program().arena.reachable({id})) {
    const Scalar& node = program().arena[e];
    const bool at_hand = node.op == ScalarOp::load && node.index.empty();
    if (at_hand && nest_.columns) level = vector_level(pass);
    for (const Index& index : node.index) {
      for (std::size_t i = 0; i < pass.inner.size(); ++i) {
        if (index.uses(pass.inner[i].id)) level = std::max(level, i + 1);
      }
      if (nest_.columns && index.uses(nest_.outer.back().id)) {
        level = vector_level(pass);
      }
    }
  }
  return level;
}

bool NestPrinter::uses_inner(const Pass& pass, ExprId id) const {
  for (const ExprId e : program().arena.reachable({id})) {
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
  if (nest_.columns) {
    scope.vector_variable = nest_.outer.back().id;
  } else if (!pass.inner.empty()) {
    scope.vector_variable = pass.inner.back().id;
  }
  if (nest_.split) return scope;
  for (const Stage& stage : nest_.stages) {
    for (std::size_t i = 0; i < stage.results.size(); ++i) {
      std::string& at = scope.results[stage.results[i]];
      if (!nest_.columns) {
        at = "r" + text(stage.results[i]);
      } else if (i == 0) {
        at = acc(stage) + "[at].value";
      } else {
        at = "convert<i64v>(" + acc(stage) + "[at].position)";
      }
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
    const std::string value = expression_text(scope, id, vectors);
    scope.names[id] = "x" + text(id);
    out_.line("const " + vector_type(node.dtype) + " x" + text(id) + " = " +
              value + ";");
  }
}

int NestPrinter::unroll(const Pass& pass) const {
  if (nest_.columns || !pass.folds() || pass.inner.empty()) return 1;
  int unroll = variant_.unroll;
  while (unroll > 1 && pass.inner.back().extent < 2 * unroll * variant_.lanes) {
    unroll /= 2;
  }
  return unroll;
}

std::string NestPrinter::lower_bound(std::size_t depth) const {
  return nest_.split && depth == 0 ? "from" : "0";
}

std::string NestPrinter::upper_bound(const Pass& pass,
                                     std::size_t depth) const {
  return nest_.split && depth == 0 ? "to" : text(pass.inner[depth].extent);
}

std::int64_t NestPrinter::piece_elements(const Pass& pass) const {
  return nest_.columns ? kPieceRows
                       : kPieceSteps * unroll(pass) * variant_.lanes;
}

// Whether the loop at that depth is the one whose pieces are summed apart: the
// outermost whose inside is a piece already, or the last if it is longer.
bool NestPrinter::pieces_of_loop(const Pass& pass, std::size_t depth) const {
  if (!pass.folds()) return false;
  const std::int64_t piece = piece_elements(pass);
  std::int64_t inside = 1;
  std::size_t at = pass.inner.size();
  while (at > 0 && inside * pass.inner[at - 1].extent <= piece) {
    inside *= pass.inner[--at].extent;
  }
  return at > 0 && at - 1 == depth;
}

bool NestPrinter::needs_totals(const Pass& pass) const {
  for (std::size_t i = 0; i < pass.inner.size(); ++i) {
    if (pieces_of_loop(pass, i)) return true;
  }
  return false;
}

void NestPrinter::declare(const Pass& pass, bool totals) {
  for (const Stage* stage : pass.folding()) {
    std::string type = reducer(program(), *stage);
    if (totals) type = "Total<" + type + ">";
    const std::string label = totals ? sum(*stage) : acc(*stage);
    const std::int64_t count =
        nest_.columns ? vectors() : (totals ? 1 : unroll(pass));
    out_.line(type + " " + label + "[" + text(count) + "];");
  }
}

void NestPrinter::merge_totals(const Pass& pass) {
  for (const Stage* stage : pass.folding()) {
    if (nest_.columns) {
      out_.line("for (int64_t at = 0; at < " + text(vectors()) + "; ++at) " +
                sum(*stage) + "[at].merge(" + acc(*stage) + "[at]);");
    } else {
      out_.line("for (const auto& part : " + acc(*stage) + ") " + sum(*stage) +
                "[0].merge(part);");
    }
  }
}

void NestPrinter::print_body(const Pass& pass, PrintScope scope) {
  if (nest_.columns) {
    out_.line("const int64_t at = (" + name(nest_.outer.back()) +
              " - first) / W;");
    out_.line("(void)at;");
  }
  emit(pass, scope, vector_level(pass));
  for (const Stage* stage : pass.stages) {
    const std::string value = operand_text(scope, stage->value);
    if (!stage->folds) {
      out_.line(store_text(scope, program().buffers[stage->output].name,
                           stage->offset, value));
      continue;
    }
    std::string call = acc(*stage) + (nest_.columns ? "[at]" : "[slot]") +
                       ".step(lanes, " + value;
    if (stage->position >= 0) {
      call += ", " + operand_text(scope, stage->position);
    }
    out_.line(call + ");");
  }
}

void NestPrinter::print_vectors(const Pass& pass, PrintScope scope) {
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
  if (!nest_.columns) {
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
  print_body(pass, std::move(scope));
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
  if (!nest_.columns || extent_of(pass.inner) < 4) return;
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

// Leaves each fold's result where the later passes, or later nests, find it.
void NestPrinter::finish(const Pass& pass) {
  const bool totals = needs_totals(pass);
  for (const Stage* stage : pass.folding()) {
    const std::string a = acc(*stage);
    if (nest_.columns) {
      if (totals) {
        out_.line("for (int64_t at = 0; at < " + text(vectors()) + "; ++at) " +
                  a + "[at] = " + sum(*stage) + "[at].folded();");
      }
    } else {
      const std::string from = totals ? sum(*stage) : a;
      const std::string folded = totals ? "[0].folded()." : "[0].";
      if (!totals && unroll(pass) > 1) {
        out_.line("for (int u = 1; u < " + text(unroll(pass)) + "; ++u) " + a +
                  "[0].merge(" + a + "[u]);");
      }
      for (std::size_t i = 0; i < stage->results.size(); ++i) {
        const int result = stage->results[i];
        out_.line("const auto q" + text(result) + " = " + from + folded +
                  (i == 0 ? "total();" : "where();"));
        out_.line("const auto r" + text(result) + " = splat(q" + text(result) +
                  ");");
        out_.line("(void)r" + text(result) + ";");
      }
    }
    for (const int result : stage->results) {
      if (!plan_.spilled.contains(result)) continue;
      const Buffer& buffer = program().buffers[result];
      PrintScope scope = scope_of(pass);
      if (nest_.columns) {
        out_.open("for_lanes<1>(first, last, [&](int64_t " +
                  name(nest_.outer.back()) + ", auto lanes, auto) BODY");
        out_.line("const int64_t at = (" + name(nest_.outer.back()) +
                  " - first) / W;");
        out_.line(store_text(scope, buffer.name, stage->result_index[0],
                             scope.results.at(result)));
        out_.close("});");
      } else {
        out_.line(buffer.name + "[" + stage->result_index[0].text() +
                  "] = stored<" + stored_type(buffer.dtype) + ">(q" +
                  text(result) + ");");
      }
    }
  }
}

void NestPrinter::print_pass(const Pass& pass) {
  std::string notes;
  for (const Stage* stage : pass.stages) {
    notes += (notes.empty() ? "// " : "; ") + stage->note;
  }
  out_.line(notes);
  const bool totals = pass.folds() && needs_totals(pass);
  // Of columns the accumulators are read again by later passes.
  if (pass.folds() && (!totals || nest_.columns)) declare(pass, false);
  if (totals) declare(pass, true);
  out_.open("");
  PrintScope scope = scope_of(pass);
  hoist_columns(pass, scope);
  print_loops(pass, scope, 0);
  out_.close();
  if (pass.folds()) finish(pass);
}

void NestPrinter::choose_block() {
  if (!nest_.columns) return;
  const std::int64_t lanes = variant_.lanes;
  const std::int64_t extent = nest_.outer.back().extent;
  std::int64_t block = variant_.block;
  if (nest_.stages.front().folds) {
    block = std::min<std::int64_t>(block, 1024);
    std::int64_t rows = 1;
    for (const Stage& stage : nest_.stages) {
      rows = std::max(rows, extent_of(stage.inner));
    }
    // Rows that several passes walk stay in cache; one pass wants long pieces
    // of each row, but a block for every thread.
    const bool again = passes_of(program(), nest_).size() > 1;
    const std::int64_t fits =
        again ? facts_.l2_bytes / 2 / (4 * rows) : extent / (2 * facts_.cores);
    block = std::clamp<std::int64_t>(fits, std::min<std::int64_t>(64, block),
                                     block);
  } else if (blocks_outside()) {
    block = std::min<std::int64_t>(block, 128);
  }
  block = std::min(block, extent);
  block_ = (block + lanes - 1) / lanes * lanes;
}

// Whether the loop over blocks goes outside the other points: where something
// is read across its grain, the next row finds the block's lines in cache.
bool NestPrinter::blocks_outside() const {
  if (!nest_.columns || nest_.stages.front().folds) return false;
  const int v = nest_.outer.back().id;
  for (const Stage& stage : nest_.stages) {
    for (const ExprId id : program().arena.reachable({stage.value})) {
      const Scalar& node = program().arena[id];
      if (node.op != ScalarOp::load || node.index.empty()) continue;
      if (std::abs(node.index[0].coefficient(v)) > 1) return true;
    }
  }
  return false;
}

// The loop over points, which the threads share.
void NestPrinter::open_points(bool parallel) {
  const std::int64_t extent = nest_.columns ? nest_.outer.back().extent : 1;
  const std::int64_t blocks = (extent + block_ - 1) / block_;
  const std::size_t plain = nest_.outer.size() - (nest_.columns ? 1 : 0);
  std::int64_t points = blocks;
  for (std::size_t i = 0; i < plain; ++i) points *= nest_.outer[i].extent;
  if (parallel) out_.line("#pragma omp parallel for schedule(static)");
  out_.open("for (int64_t p = 0; p < " + text(points) + "; ++p)");
  const bool outside = blocks_outside();
  std::int64_t below = outside ? 1 : blocks;
  for (std::size_t i = plain; i-- > 0;) {
    std::string value = "p";
    if (below > 1) value += " / " + text(below);
    below *= nest_.outer[i].extent;
    if (below < points) value += " % " + text(nest_.outer[i].extent);
    out_.line("const int64_t " + name(nest_.outer[i]) + " = " + value + ";");
  }
  if (!nest_.columns) return;
  std::string block = outside ? "p / " + text(below) : "p % " + text(blocks);
  if (blocks == 1) block = "0";
  out_.line("const int64_t first = " + block + " * " + text(block_) + ";");
  out_.line("const int64_t last = std::min<int64_t>(" + text(extent) +
            ", first + " + text(block_) + ");");
}

std::int64_t NestPrinter::chunks(const Pass& pass) const {
  const std::int64_t extent = pass.inner.front().extent;
  if (extent < 64) return std::min<std::int64_t>(extent, facts_.cores);
  return std::min<std::int64_t>(extent / 32, 2 * facts_.cores);
}

// Every thread folds a chunk of the outermost inner variable for all points;
// the parts are merged in order, so that the result is the same every time.
void NestPrinter::print_split() {
  const Pass pass = passes_of(program(), nest_).front();
  const std::int64_t count = chunks(pass);
  const std::int64_t extent = pass.inner.front().extent;
  const std::int64_t width = nest_.columns ? nest_.outer.back().extent : 1;
  const std::int64_t blocks = (width + block_ - 1) / block_;
  const std::int64_t kept = nest_.columns ? vectors() : 1;
  std::int64_t points = blocks * extent_of(nest_.outer) / width;
  for (const Stage* stage : pass.folding()) {
    out_.line("Scratch<" + reducer(program(), *stage) + "> part" +
              text(id(*stage)) + "(" + text(count * points * kept) + ");");
  }
  out_.line("#pragma omp parallel for schedule(static)");
  out_.open("for (int64_t chunk = 0; chunk < " + text(count) + "; ++chunk)");
  out_.line("const int64_t from = chunk * " + text(extent) + " / " +
            text(count) + ";");
  out_.line("const int64_t to = (chunk + 1) * " + text(extent) + " / " +
            text(count) + ";");
  open_points(false);
  const bool totals = needs_totals(pass);
  if (!totals) declare(pass, false);
  if (totals) declare(pass, true);
  out_.open("");
  PrintScope scope = scope_of(pass);
  if (totals && nest_.columns) scope.results.clear();
  hoist_columns(pass, scope);
  print_loops(pass, scope, 0);
  out_.close();
  for (const Stage* stage : pass.folding()) {
    const std::string a = totals ? sum(*stage) : acc(*stage);
    const std::string folded = totals ? "[at].folded();" : "[at];";
    if (!nest_.columns && !totals && unroll(pass) > 1) {
      out_.line("for (int u = 1; u < " + text(unroll(pass)) + "; ++u) " + a +
                "[0].merge(" + a + "[u]);");
    }
    out_.line("auto* const to" + text(id(*stage)) + " = part" +
              text(id(*stage)) + ".data + (chunk * " + text(points) +
              " + p) * " + text(kept) + ";");
    out_.line("for (int64_t at = 0; at < " + text(kept) + "; ++at) to" +
              text(id(*stage)) + "[at] = " + a + folded);
  }
  out_.close();
  out_.close();
  open_points(false);
  for (const Stage* stage : pass.folding()) {
    out_.line(reducer(program(), *stage) + "* " + acc(*stage) + " = part" +
              text(id(*stage)) + ".data + p * " + text(kept) + ";");
    out_.open("for (int64_t chunk = 1; chunk < " + text(count) + "; ++chunk)");
    out_.line("const auto* other = " + acc(*stage) + " + chunk * " +
              text(points * kept) + ";");
    out_.line("for (int64_t at = 0; at < " + text(kept) + "; ++at) " +
              acc(*stage) + "[at].merge(other[at]);");
    out_.close();
    for (std::size_t i = 0; i < stage->results.size(); ++i) {
      const int result = stage->results[i];
      if (!plan_.spilled.contains(result)) continue;
      const Buffer& buffer = program().buffers[result];
      if (nest_.columns) {
        const std::string value =
            i == 0 ? acc(*stage) + "[at].value"
                   : "convert<i64v>(" + acc(*stage) + "[at].position)";
        out_.open("for_lanes<1>(first, last, [&](int64_t " +
                  name(nest_.outer.back()) + ", auto lanes, auto) BODY");
        out_.line("const int64_t at = (" + name(nest_.outer.back()) +
                  " - first) / W;");
        out_.line(
            store_text(scope, buffer.name, stage->result_index[0], value));
        out_.close("});");
      } else {
        out_.line(buffer.name + "[" + stage->result_index[0].text() +
                  "] = stored<" + stored_type(buffer.dtype) + ">(" +
                  acc(*stage) + "[0]." + (i == 0 ? "total()" : "where()") +
                  ");");
      }
    }
  }
  out_.close();
}

void NestPrinter::print() {
  choose_block();
  out_.open("");
  if (nest_.split) {
    print_split();
  } else {
    open_points(nest_.parallel);
    for (const Pass& pass : passes_of(program(), nest_)) print_pass(pass);
    out_.close();
  }
  out_.close();
}

std::string signature_text(const Schedule& plan) {
  std::string parameters;
  for (const bool output : {false, true}) {
    for (const Buffer& buffer : plan.program.buffers) {
      const auto kind = output ? BufferKind::output : BufferKind::input;
      if (buffer.kind != kind) continue;
      if (!parameters.empty()) parameters += ", ";
      parameters += (output ? "" : "const ") + stored_type(buffer.dtype) +
                    "* __restrict " + buffer.name;
    }
  }
  return "extern \"C\" void kernel_function(" + parameters + ")";
}

}  // namespace

std::string print_cpu(const Schedule& plan, const CpuVariant& variant,
                      const CpuFacts& facts, const std::string& title) {
  Writer out;
  out.open(signature_text(plan));
  for (const int result : plan.spilled) {
    const Buffer& buffer = plan.program.buffers[result];
    const std::string type = stored_type(buffer.dtype);
    std::int64_t count = 1;
    for (const std::int64_t extent : buffer.shape) count *= extent;
    out.line("const Scratch<" + type + "> " + buffer.name + "_scratch(" +
             text(count) + ");");
    out.line(type + "* const " + buffer.name + " = " + buffer.name +
             "_scratch.data;");
  }
  for (const Nest& nest : plan.nests) {
    NestPrinter(plan, nest, variant, facts, out).print();
  }
  out.close();
  return title + cpu_prelude(variant.lanes, variant.stream_stores) + "\n" +
         out.str();
}

}  // namespace weft
