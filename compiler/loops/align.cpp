#include "compiler/loops/align.hpp"

#include <algorithm>
#include <optional>

namespace weft {
namespace {

using Variables = std::vector<LoopVar>;

bool holds(const Variables& list, int id) {
  return std::any_of(list.begin(), list.end(),
                     [&](const LoopVar& v) { return v.id == id; });
}

Variables renamed(const Variables& list, const IndexMap& map) {
  Variables result;
  for (const LoopVar& variable : list) {
    const auto found = map.find(variable.id);
    if (found == map.end()) {
      result.push_back(variable);
      continue;
    }
    std::map<int, LoopVar> fresh;
    found->second.collect(fresh);
    // Outermost first: the larger coefficient.
    Variables parts;
    for (const auto& [id, part] : fresh) parts.push_back(part);
    std::sort(parts.begin(), parts.end(), [&](auto& a, auto& b) {
      return found->second.coefficient(a.id) > found->second.coefficient(b.id);
    });
    result.insert(result.end(), parts.begin(), parts.end());
  }
  return result;
}

IndexMap split_map(Program& program, LoopVar variable, std::int64_t low) {
  const LoopVar outer = program.new_variable(variable.extent / low);
  const LoopVar inner = program.new_variable(low);
  return {{variable.id, Index(outer) * low + Index(inner)}};
}

void substitute_nest(Program& program, Nest& nest, const IndexMap& map) {
  nest.outer = renamed(nest.outer, map);
  for (Stage& stage : nest.stages) substitute(program, stage, map);
}

// Loads in `stage` of what `nest` computes.
std::vector<ExprId> loads_of(const Program& program, const Nest& nest,
                             const Stage& stage) {
  std::set<int> results;
  for (const Stage& other : nest.stages) {
    results.insert(other.results.begin(), other.results.end());
  }
  std::vector<ExprId> loads;
  for (const ExprId id : program.arena.reachable({stage.value})) {
    const Scalar& node = program.arena[id];
    if (node.op == ScalarOp::load && results.contains(node.buffer)) {
      loads.push_back(id);
    }
  }
  return loads;
}

const Stage* maker_of(const Nest& nest, int buffer) {
  for (const Stage& stage : nest.stages) {
    if (std::find(stage.results.begin(), stage.results.end(), buffer) !=
        stage.results.end()) {
      return &stage;
    }
  }
  return nullptr;
}

// The variable under a quotient or remainder, and where to split it; whether
// that is into whole blocks is asked.
std::optional<std::pair<LoopVar, std::int64_t>> hidden_split(
    const Index& index, bool whole = true) {
  for (const auto& [coefficient, atom] : index.terms()) {
    if (atom->kind == Index::AtomKind::variable) continue;
    if (const auto deeper = hidden_split(atom->inner, whole)) return deeper;
    std::map<int, LoopVar> variables;
    atom->inner.collect(variables);
    for (const auto& [id, variable] : variables) {
      const std::int64_t step = atom->inner.coefficient(id);
      if (step <= 0 || atom->divisor % step != 0) continue;
      const std::int64_t low = atom->divisor / step;
      if (low > 1 && low < variable.extent &&
          (variable.extent % low == 0) == whole) {
        return std::pair(variable, low);
      }
    }
  }
  return std::nullopt;
}

// The variables of a mixed-radix number, outermost first: v0·(e1·e2) + v1·e2
// + v2. None if it is something else.
std::optional<Variables> digits(const Index& index) {
  if (!index.is_affine() || index.offset() != 0) return std::nullopt;
  Variables result;
  for (const auto& term : index.terms()) result.push_back(term.atom->variable);
  std::sort(result.begin(), result.end(), [&](auto& a, auto& b) {
    return index.coefficient(a.id) > index.coefficient(b.id);
  });
  std::int64_t scale = 1;
  for (std::size_t i = result.size(); i-- > 0;) {
    if (index.coefficient(result[i].id) != scale) return std::nullopt;
    scale *= result[i].extent;
  }
  return result;
}

// Pairs the digits of both, innermost first. Where their extents differ, says
// which side to split instead.
struct Pairing {
  std::map<int, LoopVar> pairs;  ///< the stage's variable, the nest's
  bool possible = true;
  std::optional<IndexMap> split_stage;
  std::optional<IndexMap> split_nest;
};

void pair_digits(Program& program, const Index& of_stage, const Index& of_nest,
                 Pairing& pairing) {
  auto a = digits(of_stage);
  auto b = digits(of_nest);
  pairing.possible = a.has_value() && b.has_value();
  while (pairing.possible && !(a->empty() && b->empty())) {
    if (a->empty() || b->empty()) {
      pairing.possible = false;
      return;
    }
    const LoopVar x = a->back();
    const LoopVar y = b->back();
    if (x.extent > y.extent && x.extent % y.extent == 0) {
      pairing.split_stage = split_map(program, x, y.extent);
      return;
    }
    if (y.extent > x.extent && y.extent % x.extent == 0) {
      pairing.split_nest = split_map(program, y, x.extent);
      return;
    }
    const auto known = pairing.pairs.find(x.id);
    const bool fits = known == pairing.pairs.end() || known->second == y;
    if (x.extent != y.extent || !fits) {
      pairing.possible = false;
      return;
    }
    pairing.pairs[x.id] = y;
    a->pop_back();
    b->pop_back();
  }
}

Pairing pair_results(Program& program, const Nest& nest, const Stage& stage) {
  Pairing pairing;
  for (const ExprId id : loads_of(program, nest, stage)) {
    const Scalar node = program.arena[id];
    const Stage* maker = maker_of(nest, node.buffer);
    pairing.possible = !node.is_indirect;
    if (!pairing.possible) return pairing;
    for (std::size_t i = 0; i < node.index.size(); ++i) {
      if (const auto split = hidden_split(node.index[i])) {
        pairing.split_stage = split_map(program, split->first, split->second);
        return pairing;
      }
      pair_digits(program, node.index[i], maker->result_index[i], pairing);
      if (!pairing.possible || pairing.split_stage || pairing.split_nest) {
        return pairing;
      }
    }
  }
  return pairing;
}

// For a stage that reads the nest's results from their end: the variable that
// walks back counts the other way.
std::optional<IndexMap> turned_map(Program& program, const Nest& nest,
                                   const Stage& stage) {
  for (const ExprId id : loads_of(program, nest, stage)) {
    const Scalar node = program.arena[id];
    for (const Index& index : node.index) {
      if (!index.is_affine() || index.terms().size() != 1) continue;
      const LoopVar variable = index.terms().front().atom->variable;
      const std::int64_t last = variable.extent - 1;
      if (index.offset() != last || index.coefficient(variable.id) != -1) {
        continue;
      }
      const LoopVar other = program.new_variable(variable.extent);
      return IndexMap{{variable.id, Index(last) - Index(other)}};
    }
  }
  return std::nullopt;
}

// Gives the paired variables the nest's names, if they are all of its points
// and leave a reduction's own variables alone.
bool adopt(Program& program, const Nest& nest, Stage& stage,
           const std::map<int, LoopVar>& pairs) {
  std::set<int> covered;
  for (const auto& [id, target] : pairs) {
    if (!holds(nest.outer, target.id)) continue;
    if (!covered.insert(target.id).second) return false;
    if (stage.is_reduction && !holds(stage.outer, id)) return false;
  }
  if (covered.size() != nest.outer.size()) return false;
  if (stage.is_reduction && stage.outer.size() != nest.outer.size())
    return false;
  IndexMap map;
  for (const auto& [id, target] : pairs) {
    if (holds(nest.outer, target.id)) map[id] = Index(target);
  }
  Variables inner;
  for (const LoopVar& variable : stage.inner) {
    if (!map.contains(variable.id)) inner.push_back(variable);
  }
  stage.inner = inner;
  substitute(program, stage, map);
  stage.outer.clear();
  return true;
}

// The same for a stage that walks exactly the points of a scan.
bool adopt_scan(Program& program, const Nest& nest, Stage& stage,
                const std::map<int, LoopVar>& pairs) {
  const LoopVar scanned = nest.stages.front().inner.front();
  IndexMap map;
  std::set<int> covered;
  for (const LoopVar& variable : stage.inner) {
    const auto found = pairs.find(variable.id);
    if (found == pairs.end()) return false;
    map[variable.id] = Index(found->second);
    if (!covered.insert(found->second.id).second) return false;
  }
  if (covered.size() != nest.outer.size() + 1 ||
      !covered.contains(scanned.id)) {
    return false;
  }
  substitute(program, stage, map);
  stage.inner = {scanned};
  stage.outer.clear();
  return true;
}

// Variables at the same place of one load in each, by coefficient.
std::optional<Pairing> pair_load(Program& program, const Index& of_stage,
                                 const Index& of_nest) {
  Pairing pairing;
  if (!of_stage.is_affine() || !of_nest.is_affine()) return std::nullopt;
  for (const auto& term : of_stage.terms()) {
    const LoopVar x = term.atom->variable;
    std::optional<LoopVar> match;
    for (const auto& other : of_nest.terms()) {
      if (other.coefficient == term.coefficient) match = other.atom->variable;
    }
    if (!match) continue;
    if (x.extent > match->extent && x.extent % match->extent == 0) {
      pairing.split_stage = split_map(program, x, match->extent);
      return pairing;
    }
    if (match->extent > x.extent && match->extent % x.extent == 0) {
      pairing.split_nest = split_map(program, *match, x.extent);
      return pairing;
    }
    if (match->extent == x.extent) pairing.pairs[x.id] = *match;
  }
  return pairing;
}

// A load of the same buffer in both; the largest one.
std::optional<std::pair<Index, Index>> common_load(const Program& program,
                                                   const Stage& a,
                                                   const Stage& b) {
  std::optional<std::pair<Index, Index>> best;
  for (const ExprId of_a : program.arena.reachable({a.value})) {
    const Scalar& x = program.arena[of_a];
    if (x.op != ScalarOp::load || x.index.size() != 1) continue;
    for (const ExprId of_b : program.arena.reachable({b.value})) {
      const Scalar& y = program.arena[of_b];
      if (y.op != ScalarOp::load || y.buffer != x.buffer) continue;
      if (!best || x.index[0].terms().size() > best->first.terms().size()) {
        best = std::pair(x.index[0], y.index[0]);
      }
    }
  }
  return best;
}

constexpr int kSplitsMax = 32;

// Both may walk the same in the same order, however what they read is indexed.
bool adopt_in_order(Program& program, Stage& stage, const Stage& other) {
  if (stage.inner.empty() || stage.inner.size() != other.inner.size()) {
    return false;
  }
  IndexMap map;
  for (std::size_t i = 0; i < stage.inner.size(); ++i) {
    if (stage.inner[i].extent != other.inner[i].extent) return false;
    map[stage.inner[i].id] = Index(other.inner[i]);
  }
  Stage tried = stage;
  substitute(program, tried, map);
  const std::vector<ExprId> known = program.arena.reachable({other.value});
  for (const ExprId id : program.arena.reachable({tried.value})) {
    const Scalar& node = program.arena[id];
    if (node.op != ScalarOp::load || node.index.empty()) continue;
    const bool walks = std::ranges::any_of(other.inner, [&](const LoopVar& v) {
      return node.index[0].uses(v.id);
    });
    if (walks && std::ranges::find(known, id) != known.end()) {
      tried.inner = other.inner;
      stage = std::move(tried);
      return true;
    }
  }
  return false;
}

// The stage at `member` of the nest reads what the new one reads.
bool align_to_loads_of(Program& program, Nest& nest, std::size_t member,
                       Stage& stage) {
  for (int round = 0; round < kSplitsMax; ++round) {
    const auto common = common_load(program, stage, nest.stages[member]);
    if (!common) return false;
    const auto pairing = pair_load(program, common->first, common->second);
    if (!pairing) return false;
    if (pairing->split_stage) {
      substitute(program, stage, *pairing->split_stage);
    } else if (pairing->split_nest) {
      substitute_nest(program, nest, *pairing->split_nest);
    } else {
      return adopt(program, nest, stage, pairing->pairs);
    }
  }
  return false;
}

}  // namespace

void substitute(Program& program, Stage& stage, const IndexMap& map) {
  stage.outer = renamed(stage.outer, map);
  stage.inner = renamed(stage.inner, map);
  stage.value = program.arena.substitute(stage.value, map);
  if (stage.position >= 0) {
    stage.position = program.arena.substitute(stage.position, map);
  }
  for (Index& index : stage.result_index) index = index.substitute(map);
  stage.offset = stage.offset.substitute(map);
  for (auto& [index, extent] : stage.bounds) index = index.substitute(map);
}

bool align_to_results(Program& program, Nest& nest, Stage& stage) {
  for (int round = 0; round < kSplitsMax; ++round) {
    const Pairing pairing = pair_results(program, nest, stage);
    if (!pairing.possible) return false;
    if (pairing.split_stage) {
      substitute(program, stage, *pairing.split_stage);
    } else if (pairing.split_nest) {
      substitute_nest(program, nest, *pairing.split_nest);
    } else {
      return adopt(program, nest, stage, pairing.pairs);
    }
  }
  return false;
}

void walk_whole_blocks(Program& program, const Nest& nest, Stage& stage) {
  if (!stage.is_store()) return;
  const auto broken = [&]() -> std::optional<std::pair<LoopVar, std::int64_t>> {
    for (const ExprId id : loads_of(program, nest, stage)) {
      for (const Index& index : program.arena[id].index) {
        if (const auto split = hidden_split(index, false)) return split;
      }
    }
    return std::nullopt;
  };
  while (const auto found = broken()) {
    const auto [variable, block] = *found;
    const std::int64_t blocks = (variable.extent + block - 1) / block;
    ScalarArena& arena = program.arena;
    const ExprId inside =
        arena.call("lt", DType::boolean,
                   {arena.position(Index(variable)),
                    arena.integer(DType::i64, variable.extent)});
    stage.value = arena.guarded(stage.value, inside);
    stage.bounds.emplace_back(variable, variable.extent);
    substitute(program, stage,
               {{variable.id, Index(program.new_variable(blocks * block))}});
  }
}

bool align_to_scan(Program& program, Nest& nest, Stage& stage) {
  if (!stage.is_store()) return false;
  if (const auto turned = turned_map(program, nest, stage)) {
    substitute(program, stage, *turned);
  }
  const LoopVar scanned = nest.stages.front().inner.front();
  for (int round = 0; round < kSplitsMax; ++round) {
    const Pairing pairing = pair_results(program, nest, stage);
    if (!pairing.possible) return false;
    if (pairing.split_stage) {
      substitute(program, stage, *pairing.split_stage);
    } else if (pairing.split_nest) {
      // Its order is what a scan is about.
      if (pairing.split_nest->contains(scanned.id)) return false;
      substitute_nest(program, nest, *pairing.split_nest);
    } else {
      return adopt_scan(program, nest, stage, pairing.pairs);
    }
  }
  return false;
}

// A gradient's second sum of a row may read none of what the first one reads.
bool align_to_loads(Program& program, Nest& nest, Stage& stage) {
  for (std::size_t member = 0; member < nest.stages.size(); ++member) {
    Nest tried = nest;
    Stage aligned = stage;
    if (!align_to_loads_of(program, tried, member, aligned)) continue;
    nest = std::move(tried);
    stage = std::move(aligned);
    return true;
  }
  return false;
}

bool align_beside(Program& program, const Nest& nest, Stage& stage,
                  const LoopFacts& facts) {
  const auto reductions = std::ranges::count_if(
      nest.stages, [](const Stage& other) { return other.is_reduction; });
  if (!stage.is_reduction || stage.outer.size() != nest.outer.size() ||
      reductions >= facts.choices.loops.reductions_beside_max) {
    return false;
  }
  IndexMap map;
  for (std::size_t i = 0; i < nest.outer.size(); ++i) {
    if (stage.outer[i].extent != nest.outer[i].extent) return false;
    map[stage.outer[i].id] = Index(nest.outer[i]);
  }
  Stage tried = stage;
  substitute(program, tried, map);
  for (const Stage& other : nest.stages) {
    if (!other.is_reduction || !adopt_in_order(program, tried, other)) continue;
    stage = std::move(tried);
    stage.outer.clear();
    return true;
  }
  return false;
}

void split_as_read(Program& program, Stage& stage, const Index& read) {
  std::vector<LoopVar> all = stage.outer;
  all.insert(all.end(), stage.inner.begin(), stage.inner.end());
  for (const LoopVar& variable : all) {
    std::set<std::int64_t> divisors;
    for (const auto& term : read.terms()) {
      if (term.atom->kind == Index::AtomKind::variable ||
          !term.atom->inner.uses(variable.id)) {
        continue;
      }
      const bool is_bare = term.atom->inner == Index(variable);
      divisors.insert(is_bare ? term.atom->divisor : 0);
    }
    const std::int64_t low = divisors.size() == 1 ? *divisors.begin() : 0;
    if (low == 0 || variable.extent % low != 0) continue;
    substitute(program, stage, split_map(program, variable, low));
  }
}

void share_inner(Program& program, Nest& nest, Stage& stage) {
  for (const Stage& other : nest.stages) {
    if (adopt_in_order(program, stage, other)) return;
  }
  for (const Stage& other : nest.stages) {
    const auto common = common_load(program, stage, other);
    if (!common || other.inner.size() != stage.inner.size()) continue;
    const auto pairing = pair_load(program, common->first, common->second);
    if (!pairing || pairing->split_stage || pairing->split_nest) continue;
    IndexMap map;
    std::set<int> covered;
    for (const auto& [id, target] : pairing->pairs) {
      if (holds(stage.inner, id) && holds(other.inner, target.id)) {
        map[id] = Index(target);
        covered.insert(target.id);
      }
    }
    if (map.size() != stage.inner.size() || covered.size() != map.size()) {
      continue;
    }
    substitute(program, stage, map);
    stage.inner = other.inner;
    return;
  }
}

}  // namespace weft
