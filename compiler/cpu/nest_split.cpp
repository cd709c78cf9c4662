// Reductions whose walk is shared among the threads, for lack of points.
#include <algorithm>

#include "compiler/cpu/nest.hpp"

namespace weft {

// A short loop has one chunk per step. If its length is symbolic, the kernel
// counts the chunks when it runs.
Count NestPrinter::chunks(const Pass& pass) const {
  const LoopVar& walked = pass.inner.front();
  const CpuChoices& choices = facts_.choices.cpu;
  const bool are_few = size_hint({walked}) < 2 * choices.split_chunk_steps_min;
  const std::int64_t steps = are_few ? 1 : choices.split_chunk_steps_min;
  const std::int64_t most =
      are_few ? facts_.cores : choices.split_chunks_per_core * facts_.cores;
  const std::int64_t value =
      std::clamp<std::int64_t>(walked.extent / steps, 1, most);
  if (!is_symbolic(plan_, {walked})) return value;
  return {value,
          "std::clamp<int64_t>(" + text(walked.extent) + " / " + text(steps) +
              ", 1, " + text(most) + ")",
          false, true};
}

// Every thread reduces a chunk of the outermost inner variable for all points.
void NestPrinter::print_chunks(const Pass& pass, const Count& chunks,
                               const Count& points) {
  const std::int64_t extent = pass.inner.front().extent;
  const std::string values_per_point =
      text(nest_.outer_reduction ? vectors() : 1);
  out_.line("#pragma omp parallel for schedule(static)");
  out_.open("for (int64_t chunk = 0; chunk < " + chunks.text + "; ++chunk)");
  out_.line("const int64_t from = chunk * " + text(extent) + " / " +
            chunks.text + ";");
  out_.line("const int64_t to = (chunk + 1) * " + text(extent) + " / " +
            chunks.text + ";");
  open_points(false);
  const bool totals = needs_totals(pass);
  declare(pass, totals);
  out_.open("");
  PrintScope scope = scope_of(pass);
  hoist_columns(pass, scope);
  print_loops(pass, scope, 0);
  out_.close();
  for (const Stage* stage : pass.reductions()) {
    const std::string number = text(id(*stage));
    join_unrolled(pass, *stage);
    out_.line("auto* const to" + number + " = part" + number +
              ".data + (chunk * " + points.text + " + p) * " +
              values_per_point + ";");
    out_.line(
        "for (int64_t at = 0; at < " + values_per_point + "; ++at) to" +
        number + "[at] = " +
        (totals ? sum(*stage) + "[at].folded();" : acc(*stage) + "[at];"));
  }
  out_.close();
  out_.close();
}

// In order, so that the result is the same every time.
void NestPrinter::merge_chunks(const Pass& pass, const Count& chunks,
                               const Count& points) {
  const std::int64_t values_per_point = nest_.outer_reduction ? vectors() : 1;
  open_points(false);
  for (const Stage* stage : pass.reductions()) {
    const std::string a = acc(*stage);
    out_.line(reducer(program(), *stage) + "* " + a + " = part" +
              text(id(*stage)) + ".data + p * " + text(values_per_point) + ";");
    out_.open("for (int64_t chunk = 1; chunk < " + chunks.text + "; ++chunk)");
    out_.line("const auto* other = " + a + " + chunk * " +
              product(points, values_per_point).text + ";");
    out_.line("for (int64_t at = 0; at < " + text(values_per_point) +
              "; ++at) " + a + "[at].merge(other[at]);");
    out_.close();
    for (std::size_t i = 0; !nest_.outer_reduction && i < stage->results.size();
         ++i) {
      out_.line("const auto q" + text(stage->results[i]) + " = " + a + "[0]." +
                (i == 0 ? "total();" : "where();"));
    }
    spill(*stage);
  }
  out_.close();
}

void NestPrinter::print_split() {
  const Pass pass = passes_of(program(), nest_).front();
  const Count count = chunks(pass);
  const std::int64_t values_per_point = nest_.outer_reduction ? vectors() : 1;
  Count points =
      parts(nest_.outer_reduction ? nest_.outer.back().extent : 1, block_);
  for (std::size_t i = 0;
       i + (nest_.outer_reduction ? 1 : 0) < nest_.outer.size(); ++i) {
    points = product(points, parts(nest_.outer[i].extent, 1));
  }
  const Count elements = product(product(count, points), values_per_point);
  for (const Stage* stage : pass.reductions()) {
    out_.line("Scratch<" + reducer(program(), *stage) + "> part" +
              text(id(*stage)) + "(" + elements.text + ");");
  }
  print_chunks(pass, count, points);
  merge_chunks(pass, count, points);
}

}  // namespace weft
