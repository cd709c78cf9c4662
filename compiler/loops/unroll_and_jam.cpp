#include "compiler/loops/unroll_and_jam.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "compiler/loops/align.hpp"
#include "compiler/loops/jam.hpp"

namespace weft {
namespace {

/// Only what needs nothing but the order of a reduction's elements, which is
/// free.
std::optional<std::string> combiner(const Program& program,
                                    const Stage& stage) {
  if (!is_float(program.arena[stage.value].dtype)) return {};
  if (stage.reduction == Reduction::sum) return "add";
  if (stage.reduction == Reduction::max) return "maximum";
  if (stage.reduction == Reduction::min) return "minimum";
  return {};
}

bool is_one_window(const Schedule& plan, const Nest& nest) {
  const Stage& reduction = nest.stages.front();
  const bool others_store = std::all_of(
      nest.stages.begin() + 1, nest.stages.end(),
      [](const Stage& s) { return s.is_store() && s.inner.empty(); });
  return nest.outer_reduction && !nest.split && !nest.no_fuse &&
         reduction.is_reduction && reduction.inner.size() > 1 &&
         !plan.spilled.contains(reduction.results[0]) && others_store &&
         combiner(plan.program, reduction).has_value();
}

/// How many elements of `inner` a step of `outer` is, in what is read along
/// both; 0 if nothing is, or not so.
std::int64_t step_of(const Program& program, const Stage& reduction,
                     LoopVar outer, LoopVar inner) {
  std::int64_t step = 0;
  for (const ExprId id : program.arena.reachable({reduction.value})) {
    const Scalar& node = program.arena[id];
    if (node.op != ScalarOp::load || node.index.size() != 1) continue;
    const std::int64_t outer_step = node.index[0].coefficient(outer.id);
    const std::int64_t inner_step = node.index[0].coefficient(inner.id);
    if (outer_step == 0 || inner_step == 0) continue;
    if (outer_step % inner_step != 0 ||
        (step != 0 && outer_step / inner_step != step))
      return 0;
    step = outer_step / inner_step;
  }
  return step;
}

/// The neighbours that go together: all of them in equal numbers.
std::int64_t together_of(const Stage& reduction, LoopVar outer, LoopVar inner,
                         const LoopChoices& choices) {
  std::int64_t most = std::min(
      {choices.jam_windows_max, choices.jam_written_elements_max / inner.extent,
       choices.jam_taps_max / extent_of(reduction.inner)});
  while (most > 1 && outer.extent % most != 0) --most;
  return std::max<std::int64_t>(1, most);
}

std::optional<Jam> best_jam(const Program& program, const Nest& nest,
                            const LoopChoices& choices) {
  const Stage& reduction = nest.stages.front();
  std::optional<Jam> best;
  // The last variable is that of the vectors.
  for (std::size_t i = 0; i + 1 < nest.outer.size(); ++i) {
    for (const LoopVar& inner : reduction.inner) {
      const LoopVar outer = nest.outer[i];
      const Jam jam = {outer, inner, step_of(program, reduction, outer, inner),
                       together_of(reduction, outer, inner, choices)};
      if (jam.step < 1 || jam.share() > choices.jam_reads_share_max) continue;
      if (!best || jam.share() < best->share()) best = jam;
    }
  }
  return best;
}

/// The expression with one result in place of another.
ExprId with_result(ScalarArena& arena, ExprId root, int old, int fresh) {
  std::map<ExprId, ExprId> replaced;
  for (const ExprId id : arena.reachable({root})) {
    const Scalar node = arena[id];
    if (node.op == ScalarOp::load && node.buffer == old) {
      replaced[id] = arena.load(node.dtype, fresh, {});
      continue;
    }
    std::vector<ExprId> arguments = node.arguments;
    for (ExprId& argument : arguments) argument = replaced.at(argument);
    replaced[id] = arena.with_arguments(id, std::move(arguments));
  }
  return replaced.at(root);
}

int new_result(Program& program, int like) {
  Buffer buffer = program.buffers[like];
  buffer.name = "r" + std::to_string(program.buffers.size());
  program.buffers.push_back(std::move(buffer));
  return static_cast<int>(program.buffers.size()) - 1;
}

void apply(Program& program, Nest& nest, const Jam& jam) {
  const LoopVar block = program.new_variable(jam.outer.extent / jam.together);
  const bool is_all = block.extent == 1;
  const auto at = [&](std::int64_t which) {
    const Index first = is_all ? Index(0) : Index(block) * jam.together;
    return first + Index(which);
  };
  const Stage reduction = nest.stages.front();
  const std::string combine = *combiner(program, reduction);
  const DType dtype = program.arena[reduction.value].dtype;
  std::vector<Stage> stages;
  for (std::int64_t which = 0; which < jam.together; ++which) {
    Stage copy = reduction;
    std::erase(copy.inner, jam.inner);
    if (which > 0) copy.results = {new_result(program, reduction.results[0])};
    for (std::int64_t i = 0; i < jam.inner.extent; ++i) {
      const ExprId value = program.arena.substitute(
          reduction.value,
          {{jam.outer.id, at(which)}, {jam.inner.id, Index(i)}});
      copy.value =
          i == 0 ? value
                 : program.arena.call(combine, dtype, {copy.value, value});
    }
    stages.push_back(std::move(copy));
  }
  for (std::size_t s = 1; s < nest.stages.size(); ++s) {
    for (std::int64_t which = 0; which < jam.together; ++which) {
      Stage copy = nest.stages[s];
      substitute(program, copy, {{jam.outer.id, at(which)}});
      copy.value = with_result(program.arena, copy.value, reduction.results[0],
                               stages[which].results[0]);
      stages.push_back(std::move(copy));
    }
  }
  nest.stages = std::move(stages);
  std::replace(nest.outer.begin(), nest.outer.end(), jam.outer, block);
  if (is_all) std::erase(nest.outer, block);
}

}  // namespace

void unroll_and_jam(Schedule& plan, const LoopChoices& choices) {
  for (Nest& nest : plan.nests) {
    if (!is_one_window(plan, nest)) continue;
    const auto jam = best_jam(plan.program, nest, choices);
    if (jam) apply(plan.program, nest, *jam);
  }
}

}  // namespace weft
