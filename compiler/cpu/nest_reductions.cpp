// Reductions within a nest: accumulators, pieces of long sums, and what is
// left.
#include <algorithm>

#include "compiler/cpu/nest.hpp"

namespace weft {
namespace {

// Sums are taken in pieces of about this many steps of an accumulator, and the
// pieces summed: the rounding error then grows with the square root of the
// count.
constexpr std::int64_t kPieceSteps = 64;
constexpr std::int64_t kPieceRows = 32;

}  // namespace

int NestPrinter::unroll(const Pass& pass) const {
  if (nest_.outer_reduction || !pass.has_reductions() || pass.inner.empty())
    return 1;
  int unroll = variant_.unroll;
  while (unroll > 1 &&
         size_hint({pass.inner.back()}) < 2 * unroll * variant_.vector_width) {
    unroll /= 2;
  }
  return unroll;
}

// How many rows of a column a reduction takes at once.
int NestPrinter::row_group(const Pass& pass, std::size_t depth) const {
  if (!nest_.outer_reduction || depth + 1 != plain_loops(pass)) return 1;
  const bool only_reductions =
      std::all_of(pass.stages.begin(), pass.stages.end(),
                  [](const Stage* stage) { return stage->is_reduction; });
  if (!only_reductions || size_hint({pass.inner[depth]}) < variant_.unroll)
    return 1;
  return variant_.unroll;
}

std::int64_t NestPrinter::piece_elements(const Pass& pass) const {
  return nest_.outer_reduction
             ? kPieceRows
             : kPieceSteps * unroll(pass) * variant_.vector_width;
}

// Whether the loop at that depth is the one whose pieces are summed apart: the
// outermost whose inside is a piece already, or the last if it is longer. One
// that is symbolic may be longer than any piece.
bool NestPrinter::pieces_of_loop(const Pass& pass, std::size_t depth) const {
  if (!pass.has_reductions()) return false;
  const std::int64_t piece = piece_elements(pass);
  std::int64_t inside = 1;
  std::size_t at = pass.inner.size();
  while (at > 0 && !is_symbolic(plan_, {pass.inner[at - 1]}) &&
         inside * pass.inner[at - 1].extent <= piece) {
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
  for (const Stage* stage : pass.reductions()) {
    std::string type = reducer(program(), *stage);
    if (totals) type = "Total<" + type + ">";
    const std::string label = totals ? sum(*stage) : acc(*stage);
    const std::int64_t count =
        nest_.outer_reduction ? vectors() : (totals ? 1 : unroll(pass));
    out_.line(type + " " + label + "[" + text(count) + "];");
  }
}

void NestPrinter::merge_totals(const Pass& pass) {
  for (const Stage* stage : pass.reductions()) {
    if (nest_.outer_reduction) {
      out_.line("for (int64_t at = 0; at < " + text(vectors()) + "; ++at) " +
                sum(*stage) + "[at].merge(" + acc(*stage) + "[at]);");
    } else {
      out_.line("for (const auto& part : " + acc(*stage) + ") " + sum(*stage) +
                "[0].merge(part);");
    }
  }
}

// What a reduction left, as a vector: one lane a column, or all lanes alike.
std::string NestPrinter::result_text(const Stage& stage, std::size_t i) const {
  if (!nest_.outer_reduction) return "r" + text(stage.results[i]);
  if (i == 0) return acc(stage) + "[at].value";
  return "convert<i64v>(" + acc(stage) + "[at].position)";
}

void NestPrinter::join_unrolled(const Pass& pass, const Stage& stage) {
  if (nest_.outer_reduction || needs_totals(pass) || unroll(pass) == 1) return;
  out_.line("for (int u = 1; u < " + text(unroll(pass)) + "; ++u) " +
            acc(stage) + "[0].merge(" + acc(stage) + "[u]);");
}

// Puts results into scratch for later nests.
void NestPrinter::spill(const Stage& stage) {
  for (std::size_t i = 0; i < stage.results.size(); ++i) {
    const int result = stage.results[i];
    if (!plan_.spilled.contains(result)) continue;
    const Buffer& buffer = program().buffers[result];
    const Index& index = stage.result_index[0];
    if (!nest_.outer_reduction) {
      out_.line(buffer.name + "[" + index.text() + "] = stored<" +
                stored_type(buffer.dtype) + ">(q" + text(result) + ");");
      continue;
    }
    PrintScope scope;
    scope.plan = &plan_;
    scope.vector_variable = nest_.outer.back().id;
    out_.open("for_lanes<1>(first, last, [&](int64_t " +
              name(nest_.outer.back()) + ", auto lanes, auto) BODY");
    out_.line("const int64_t at = (" + name(nest_.outer.back()) +
              " - first) / W;");
    out_.line(store_text(scope, buffer.name, index, result_text(stage, i)));
    out_.close("});");
  }
}

// Leaves each reduction's result where the later passes, or later nests, find
// it.
void NestPrinter::finish(const Pass& pass) {
  const bool totals = needs_totals(pass);
  for (const Stage* stage : pass.reductions()) {
    const std::string a = acc(*stage);
    join_unrolled(pass, *stage);
    if (nest_.outer_reduction && totals) {
      out_.line("for (int64_t at = 0; at < " + text(vectors()) + "; ++at) " +
                a + "[at] = " + sum(*stage) + "[at].folded();");
    }
    for (std::size_t i = 0; !nest_.outer_reduction && i < stage->results.size();
         ++i) {
      const std::string result = text(stage->results[i]);
      const std::string from =
          totals ? sum(*stage) + "[0].folded()" : a + "[0]";
      out_.line("const auto q" + result + " = " + from +
                (i == 0 ? ".total();" : ".where();"));
      out_.line("const auto r" + result + " = splat(q" + result + ");");
      out_.line("(void)r" + result + ";");
    }
    spill(*stage);
  }
}

}  // namespace weft
