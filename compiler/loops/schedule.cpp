#include "compiler/loops/schedule.hpp"

#include <algorithm>

#include "compiler/choices/reasons.hpp"
#include "compiler/loops/align.hpp"
#include "compiler/loops/decisions.hpp"
#include "compiler/loops/recompute.hpp"
#include "compiler/loops/rewrite.hpp"
#include "compiler/loops/scratch.hpp"

namespace weft {
namespace {

using Variables = std::vector<LoopVar>;

bool holds(const Variables& list, int id) {
  return std::any_of(list.begin(), list.end(),
                     [&](const LoopVar& v) { return v.id == id; });
}

bool scans(const Nest& nest) { return nest.stages.front().is_scan; }

bool adds(const Nest& nest) { return nest.stages.front().is_add; }

// True if the stage's stores are strided where its dominant reads are
// contiguous. Fusing it would trade coalesced stores for coalesced reads;
// alone, it is a transposition by tiles.
bool stores_transposed(const Program& program, const Stage& stage,
                       const LoopChoices& choices) {
  if (!stage.is_store() || extent_of(stage.inner) < choices.long_row_elements) {
    return false;
  }
  const Index read = program.arena.main_read(stage.value);
  std::map<int, LoopVar> variables;
  stage.offset.collect(variables);
  for (const auto& [id, variable] : variables) {
    if (stage.offset.coefficient(id) == 1) {
      return std::abs(read.coefficient(id)) >= choices.coalesced_elements &&
             2 * elements_of(read) > elements_of(stage.offset);
    }
  }
  return false;
}

// Fuses the stage into the nest, if it can share its loops. Scans fuse only
// with stages that consume their results in scan order. Additions in place are
// done when their nest is. On a GPU a transposed store is never fused.
Decision try_fuse(Program& program, Nest& nest, Stage& stage,
                  bool reads_results, const LoopFacts& facts,
                  Decisions& decisions) {
  if (stage.is_scan) return {false, "a scan begins a kernel"};
  if (stage.is_add) return {false, "an addition in place begins a kernel"};
  if (adds(nest)) {
    return {false, "additions in place are complete only when their kernel is"};
  }
  if (scans(nest)) {
    if (reads_results && align_to_scan(program, nest, stage)) return true;
    return {false, "it does not take the scan's results in the scan's order"};
  }
  Nest tried = nest;
  Stage aligned = with_buffers(program, stage, nest.recomputed);
  const bool fits =
      reads_results
          ? align_to_results(program, tried, aligned)
          : align_to_loads(program, tried, aligned) ||
                (facts.on_gpu && align_beside(program, tried, aligned, facts));
  if (!fits) {
    return {false, reads_results
                       ? "it reads several points of the earlier kernel's "
                         "result, so that kernel must be complete first"
                       : "its loops share no reads with the earlier kernel's"};
  }
  if (facts.on_gpu && decisions.by_size([&] {
        return stores_transposed(program, aligned, facts.choices.loops);
      }) != 0) {
    return {false,
            "its stores would be strided where its reads are contiguous; "
            "alone, it is a transposition by tiles"};
  }
  nest = std::move(tried);
  stage = std::move(aligned);
  return true;
}

// Whether the target wants it alone.
bool is_no_fuse(const Program& program, const Stage& stage,
                const LoopFacts& facts, Decisions& decisions) {
  return facts.no_fuse != nullptr &&
         decisions.by_size([&] { return facts.no_fuse(program, stage); }) != 0;
}

// A nest that the target wants alone takes only a scalar epilogue: a stage
// without inner loops, after which the nest is still what the target wants.
Decision try_fuse_scalar_epilogue(Program& program, Nest& nest, Stage& stage,
                                  const LoopFacts& facts,
                                  Decisions& decisions) {
  const Decision refused = {
      false, "after a product, only element-wise work on its result is fused"};
  Nest tried = nest;
  Stage aligned = stage;
  walk_whole_blocks(program, nest, aligned);
  if (!align_to_results(program, tried, aligned) || !aligned.inner.empty()) {
    return refused;
  }
  Stage first = tried.stages.front();
  first.outer = tried.outer;
  if (!is_no_fuse(program, first, facts, decisions)) return refused;
  nest = std::move(tried);
  stage = std::move(aligned);
  return true;
}

// Fuses a stage into the last nest whose results it reads, or into a later one
// that shares its loads; or appends a nest of its own.
void fuse_or_append(Program& program, std::vector<Nest>& nests, Stage stage,
                    const LoopFacts& facts, Decisions& decisions) {
  const std::set<int> read = results_read(program, stage);
  std::size_t first = 0;
  for (std::size_t i = 0; i < nests.size(); ++i) {
    if (makes_any(nests[i], read)) first = i;
  }
  const bool depends = !nests.empty() && makes_any(nests[first], read);
  const bool no_fuse = is_no_fuse(program, stage, facts, decisions);
  // The refusal of the nest whose results it reads says most.
  std::string reason = nests.empty() ? "it is the first" : "";
  if (no_fuse) reason = "a product on matrix units begins a kernel";
  for (std::size_t i = first; i < nests.size() && !no_fuse; ++i) {
    const bool reads = depends && i == first;
    const Decision fits =
        !nests[i].no_fuse
            ? try_fuse(program, nests[i], stage, reads, facts, decisions)
        : reads ? try_fuse_scalar_epilogue(program, nests[i], stage, facts,
                                           decisions)
                : Decision(false, "it does not read the product's result");
    if (!fits && reason.empty()) reason = fits.reason;
    if (!fits) continue;
    if (!scans(nests[i])) share_inner(program, nests[i], stage);
    nests[i].stages.push_back(std::move(stage));
    return;
  }
  Nest nest;
  nest.no_fuse = no_fuse;
  nest.reason = std::move(reason);
  nest.outer = stage.is_store() ? stage.inner : stage.outer;
  if (stage.is_store()) stage.inner.clear();
  stage.outer.clear();
  recompute_reductions(program, nests, nest, stage, facts, decisions);
  if (!nest.stages.empty()) share_inner(program, nest, stage);
  nest.stages.push_back(std::move(stage));
  nests.push_back(std::move(nest));
}

// The read (or write) that decides the order of loops.
Index dominant(const Program& program, const Nest& nest, Decisions& decisions) {
  const Stage& first = nest.stages.front();
  if (first.is_store()) return first.offset;
  return program.arena.main_read(first.value, [&](const Index& index) {
    return decisions.by_size([&] { return elements_of(index); });
  });
}

// The stride along the variable; its average, where the variable is inside a
// quotient or a remainder.
std::int64_t stride_along(const Index& index, const LoopVar& variable) {
  if (!index.hides(variable.id)) {
    return std::abs(index.coefficient(variable.id));
  }
  IndexMap first;
  std::map<int, LoopVar> variables;
  index.collect(variables);
  for (const auto& [id, other] : variables) first[id] = Index(0);
  IndexMap last = first;
  last[variable.id] = Index(variable.extent - 1);
  const std::int64_t reach = std::abs(index.substitute(last).offset() -
                                      index.substitute(first).offset());
  return std::max<std::int64_t>(
      1, reach / std::max<std::int64_t>(1, variable.extent - 1));
}

void sort_by_stride(Variables& variables, const Index& index,
                    Decisions& decisions) {
  std::map<int, std::int64_t> strides;
  for (const LoopVar& v : variables) {
    const std::int64_t stride =
        decisions.by_size([&] { return stride_along(index, v); });
    strides[v.id] = stride == 0 ? INT64_MAX : stride;
  }
  std::stable_sort(variables.begin(), variables.end(),
                   [&](const LoopVar& a, const LoopVar& b) {
                     return strides[a.id] > strides[b.id];
                   });
}

bool finds_position(const Stage& stage) { return stage.position >= 0; }

void order_loops(const Program& program, Nest& nest, const LoopFacts& facts,
                 Decisions& decisions) {
  if (adds(nest) || (nest.no_fuse && facts.for_sizes)) return;
  const Index main = dominant(program, nest, decisions);
  sort_by_stride(nest.outer, main, decisions);
  const bool positions =
      std::any_of(nest.stages.begin(), nest.stages.end(), finds_position);
  for (Stage& stage : nest.stages) {
    // The first of equals is found by walking in order.
    if (positions) continue;
    Index index = stage.is_store() ? stage.offset : main;
    for (const LoopVar& v : stage.inner) {
      if (!stage.is_store() && !main.uses(v.id)) {
        Nest single;
        single.stages = {stage};
        index = dominant(program, single, decisions);
      }
    }
    sort_by_stride(stage.inner, index, decisions);
  }
}

std::vector<Index> indices_of(const Program& program, const Stage& stage) {
  std::vector<Index> all = stage.result_index;
  all.push_back(stage.offset);
  for (const auto& [index, extent] : stage.bounds) all.push_back(index);
  for (const ExprId id : program.arena.reachable(roots_of(stage))) {
    const auto& index = program.arena[id].index;
    all.insert(all.end(), index.begin(), index.end());
  }
  return all;
}

// Whether a · extent(b) + b can be one variable wherever they are used.
bool mergeable(const Program& program, const Stage& stage, LoopVar a,
               LoopVar b) {
  for (const Index& index : indices_of(program, stage)) {
    if (index.hides(a.id) || index.hides(b.id)) return false;
    if (index.coefficient(a.id) != index.coefficient(b.id) * b.extent) {
      return false;
    }
  }
  return true;
}

void merge(Program& program, Nest& nest, LoopVar a, LoopVar b) {
  const LoopVar whole = program.new_variable(a.extent * b.extent);
  // b becomes the merged variable and a zero: a's coefficient is b's times
  // extent.
  const IndexMap map = {{a.id, Index(0)}, {b.id, Index(whole)}};
  const auto replace = [&](Variables& list) {
    std::erase_if(list, [&](const LoopVar& v) { return v.id == a.id; });
    for (LoopVar& v : list) {
      if (v.id == b.id) v = whole;
    }
  };
  replace(nest.outer);
  for (Stage& stage : nest.stages) {
    replace(stage.inner);
    Variables inner = stage.inner;
    substitute(program, stage, map);
    stage.inner = inner;
  }
}

bool merge_once(Program& program, Nest& nest) {
  const auto try_list = [&](const Variables& list, bool outer) {
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      const LoopVar a = list[i];
      const LoopVar b = list[i + 1];
      bool fits = true;
      for (const Stage& stage : nest.stages) {
        const bool has_a = outer || holds(stage.inner, a.id);
        const bool has_b = outer || holds(stage.inner, b.id);
        fits = fits && has_a == has_b;
        if (has_a) fits = fits && mergeable(program, stage, a, b);
      }
      if (!fits) continue;
      merge(program, nest, a, b);
      return true;
    }
    return false;
  };
  if (try_list(nest.outer, true)) return true;
  for (std::size_t i = 0; i < nest.stages.size(); ++i) {
    const Variables inner = nest.stages[i].inner;
    if (try_list(inner, false)) return true;
  }
  return false;
}

// A pool's window: its rows are shorter than a vector, while points are
// contiguous.
bool is_window(const Nest& nest, const LoopChoices& choices) {
  const Variables& inner = nest.stages.front().inner;
  return nest.stages.front().is_reduction && !inner.empty() &&
         inner.back().extent <= choices.window_row_elements_max &&
         nest.outer.back().extent >= 2 * inner.back().extent;
}

std::set<ExprId> loads_of(const Program& program, const Stage& stage) {
  std::set<ExprId> loads;
  for (const ExprId id : program.arena.reachable({stage.value})) {
    if (program.arena[id].op == ScalarOp::load) loads.insert(id);
  }
  return loads;
}

bool share_a_load(const Program& program, const Stage& a, const Stage& b) {
  const std::set<ExprId> of_b = loads_of(program, b);
  const std::set<ExprId> of_a = loads_of(program, a);
  return std::any_of(of_a.begin(), of_a.end(), [&](ExprId id) {
    return !program.arena[id].index.empty() && of_b.contains(id);
  });
}

// Splits a stage's one inner variable into those of another stage with the same
// extent, if the two then share a load.
void split_inner_alike(Program& program, Nest& nest) {
  for (Stage& stage : nest.stages) {
    if (stage.inner.size() != 1 || stage.position >= 0 || stage.is_scan)
      continue;
    for (const Stage& other : nest.stages) {
      if (other.inner.size() < 2 || other.is_scan ||
          extent_of(other.inner) != stage.inner[0].extent) {
        continue;
      }
      Index flat;
      for (const LoopVar& v : other.inner) {
        flat = flat * v.extent + Index(v);
      }
      Stage tried = stage;
      substitute(program, tried, {{stage.inner[0].id, flat}});
      tried.inner = other.inner;
      if (!share_a_load(program, tried, other)) continue;
      stage = std::move(tried);
      break;
    }
  }
}

// Whether vectors run along the points.
bool runs_along_columns(const Program& program, const Nest& nest,
                        const LoopChoices& choices, Decisions& decisions) {
  if (nest.outer.empty()) return false;
  if (adds(nest)) {
    // Vectors along what lies together in the result; else along the entries,
    // whose lanes are added one after the other.
    const auto& index = nest.stages.front().result_index;
    return !index.empty() &&
           index.back().coefficient(nest.outer.back().id) == 1;
  }
  const Variables& inner = nest.stages.front().inner;
  if (nest.stages.front().is_store()) return inner.empty();
  const Index main = dominant(program, nest, decisions);
  const bool along_inner =
      !inner.empty() && std::abs(main.coefficient(inner.back().id)) == 1;
  return (!along_inner &&
          (inner.empty() || main.coefficient(nest.outer.back().id) == 1)) ||
         decisions.by_size([&] { return is_window(nest, choices); }) != 0;
}

// Two variables of one where a read tells two dimensions apart: the longest
// read, or any where that is not known.
void split_as_decisive_reads(Program& program, Stage& stage,
                             const LoopFacts& facts, Decisions& decisions) {
  const bool has_no_longest =
      facts.for_sizes && is_no_fuse(program, stage, facts, decisions);
  if (!has_no_longest) {
    const Index longest =
        program.arena.main_read(stage.value, [&](const Index& index) {
          return decisions.by_size([&] { return elements_of(index); });
        });
    return split_as_read(program, stage, longest);
  }
  const auto variables = [&] {
    return stage.outer.size() + stage.inner.size();
  };
  for (std::size_t before = 0; before != variables();) {
    before = variables();
    for (const ExprId id : loads_of(program, stage)) {
      const auto& index = program.arena[id].index;
      if (index.size() == 1) split_as_read(program, stage, Index(index[0]));
      if (variables() != before) break;
    }
  }
}

std::int64_t work_of(const Nest& nest) {
  std::int64_t most = 1;
  for (const Stage& stage : nest.stages) {
    most = std::max(most, extent_of(stage.inner));
  }
  return most * extent_of(nest.outer);
}

// Points to distribute over threads; for columns, in whole vectors.
std::int64_t parallel_points(const Nest& nest) {
  if (!nest.outer_reduction) return extent_of(nest.outer);
  const std::int64_t last = nest.outer.back().extent;
  return extent_of(nest.outer) / last * ((last + 63) / 64);
}

// Long column reductions are walked by coalesced threads, whatever their
// extent.
bool walks(const Nest& nest, const LoopFacts& facts) {
  return facts.on_gpu && nest.outer_reduction &&
         !is_window(nest, facts.choices.loops) &&
         extent_of(nest.stages.front().inner) >=
             facts.choices.loops.long_row_elements;
}

// Whether no stage reads a row again after it is reduced.
bool reduces_in_one_pass(const Program& program, const Nest& nest) {
  return std::ranges::all_of(nest.stages, [&](const Stage& stage) {
    return extent_of(stage.inner) == 1 ||
           (stage.is_reduction &&
            !makes_any(nest, results_read(program, stage)));
  });
}

// Bytes read from memory for one point.
double row_bytes(const Program& program, const Nest& nest) {
  std::set<ExprId> loads;
  for (const Stage& stage : nest.stages) {
    loads.merge(loads_of(program, stage));
  }
  double bytes = 0;
  for (const ExprId id : loads) {
    const Scalar& load = program.arena[id];
    if (program.buffers[load.buffer].kind == BufferKind::result) continue;
    bytes += static_cast<double>(element_bytes(load.dtype));
  }
  return bytes * static_cast<double>(nest.work / extent_of(nest.outer));
}

// Whether a row stays within one multiprocessor: it is persistent there, or
// there are rows enough to keep all busy. A few rows that are read once are
// split where that pays for a second kernel.
bool is_whole(const Program& program, const Nest& nest,
              const LoopFacts& facts) {
  const std::int64_t rows = extent_of(nest.outer);
  if (nest.work / rows > facts.whole_row || walks(nest, facts)) return false;
  const bool are_few =
      facts.on_gpu &&
      rows * facts.choices.loops.few_rows_divisor <= facts.cores;
  return !are_few || !reduces_in_one_pass(program, nest) ||
         !splits_rows(row_bytes(program, nest), rows, facts.rates);
}

// Whether there is much data and few points.
bool splits(const Program& program, const Nest& nest, const LoopFacts& facts) {
  // A multiprocessor hides latency with several points.
  const std::int64_t enough =
      facts.cores * (facts.on_gpu
                         ? facts.choices.loops.points_per_multiprocessor_min
                         : facts.choices.loops.points_per_core_min);
  return nest.work >= facts.choices.loops.parallel_elements_min &&
         !is_whole(program, nest, facts) && parallel_points(nest) < enough;
}

// Split reduction: reductions over much data with few points get a nest each,
// whose inner loops are distributed over threads; stores get all variables
// outside.
void split_reductions(const Program& program, std::vector<Nest>& nests,
                      Nest nest, const LoopFacts& facts, Decisions& decisions) {
  if (!nest.stages.front().is_reduction || nest.no_fuse || facts.cores == 1 ||
      decisions.by_size([&] { return splits(program, nest, facts); }) == 0) {
    nests.push_back(std::move(nest));
    return;
  }
  for (Stage& stage : nest.stages) {
    Nest piece;
    piece.outer = nest.outer;
    piece.split = stage.is_reduction && extent_of(stage.inner) > 1;
    piece.reason =
        piece.split
            ? "much data is reduced to few points, so the threads of the whole "
              "device share its reduction"
            : "the reduction that all threads share must be complete first";
    if (!stage.is_reduction) {
      piece.outer.insert(piece.outer.end(), stage.inner.begin(),
                         stage.inner.end());
      stage.inner.clear();
    }
    piece.stages.push_back(std::move(stage));
    const bool joins =
        piece.split && !nests.empty() && nests.back().split &&
        nests.back().outer == piece.outer &&
        nests.back().stages[0].inner == piece.stages[0].inner &&
        !makes_any(nests.back(), results_read(program, piece.stages[0]));
    if (joins) {
      nests.back().stages.push_back(std::move(piece.stages[0]));
    } else {
      nests.push_back(std::move(piece));
    }
  }
}

}  // namespace

std::set<int> results_read(const Program& program, const Stage& stage) {
  std::set<int> read;
  // An addition also reads its target.
  if (stage.is_add) read.insert(stage.results.begin(), stage.results.end());
  for (const ExprId id : program.arena.reachable(roots_of(stage))) {
    const Scalar& node = program.arena[id];
    if (node.op == ScalarOp::load &&
        program.buffers[node.buffer].kind == BufferKind::result) {
      read.insert(node.buffer);
    }
  }
  return read;
}

bool makes_any(const Nest& nest, const std::set<int>& results) {
  for (const Stage& stage : nest.stages) {
    for (const int buffer : stage.results) {
      if (results.contains(buffer)) return true;
    }
  }
  return false;
}

std::int64_t extent_of(const std::vector<LoopVar>& variables) {
  std::int64_t count = 1;
  for (const LoopVar& variable : variables) count *= variable.extent;
  return count;
}

Schedule schedule(Program program, const LoopFacts& facts,
                  const Schedule* hint) {
  Decisions decisions(hint != nullptr ? &hint->decisions : nullptr);
  std::vector<Nest> nests;
  std::vector<Stage> stages = std::move(program.stages);
  program.stages.clear();
  for (Stage& stage : stages) {
    if (facts.on_gpu && !stage.is_scan) {
      split_as_decisive_reads(program, stage, facts, decisions);
    }
    fuse_or_append(program, nests, std::move(stage), facts, decisions);
  }
  drop_recomputed(program, nests);
  for (Nest& nest : nests) {
    order_loops(program, nest, facts, decisions);
    nest.outer_reduction =
        runs_along_columns(program, nest, facts.choices.loops, decisions);
    nest.work = work_of(nest);
  }
  Schedule plan;
  for (Nest& nest : nests) {
    split_reductions(program, plan.nests, std::move(nest), facts, decisions);
  }
  plan.program = std::move(program);
  lay_out_results(plan, facts.on_gpu);
  for (Nest& nest : plan.nests) {
    order_loops(plan.program, nest, facts, decisions);
    while (merge_once(plan.program, nest)) {
    }
    if (facts.on_gpu) split_inner_alike(plan.program, nest);
    nest.outer_reduction =
        runs_along_columns(plan.program, nest, facts.choices.loops, decisions);
    nest.work = work_of(nest);
    nest.parallel = facts.cores > 1 && decisions.by_size([&] {
      return nest.work >= facts.choices.loops.parallel_elements_min;
    }) != 0;
  }
  plan.decisions = std::move(decisions).decided();
  return plan;
}

}  // namespace weft
