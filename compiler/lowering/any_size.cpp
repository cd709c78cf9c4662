#include "compiler/lowering/any_size.hpp"

#include "compiler/lowering/lower.hpp"
#include "compiler/text/common_text.hpp"

namespace weft {
namespace {

/// No threshold on an index is as low, or as high.
constexpr std::int64_t kSmall[] = {2, 3}, kLarge[] = {1'000'003, 100'003};

std::string extents_text(const std::vector<LoopVar>& variables) {
  std::string text;
  for (const LoopVar& v : variables) {
    text += " v" + std::to_string(v.id) + " to " + std::to_string(v.extent);
  }
  return text;
}

std::string expression_text(const ScalarArena& arena, ExprId id) {
  const Scalar& node = arena[id];
  std::string text = "e" + std::to_string(id) + " op" +
                     std::to_string(static_cast<int>(node.op)) + " " +
                     std::string(dtype_name(node.dtype)) + " " + node.function +
                     " buffer" + std::to_string(node.buffer) + " " +
                     std::to_string(node.number) + " " +
                     std::to_string(node.integer);
  for (const Index& index : node.index) text += " [" + index.text() + "]";
  for (const ExprId argument : node.arguments) {
    text += " e" + std::to_string(argument);
  }
  return text + "\n";
}

/// All that decides what the program computes.
std::string program_text(const Program& program) {
  std::string text;
  for (const Stage& stage : program.stages) {
    text += stage.note + ": outer" + extents_text(stage.outer) + " inner" +
            extents_text(stage.inner) + " fold" +
            std::to_string(static_cast<int>(stage.reduction)) + " at " +
            stage.offset.text();
    for (const Index& index : stage.result_index) text += " " + index.text();
    text += "\n";
    std::vector<ExprId> roots{stage.value};
    if (stage.position >= 0) roots.push_back(stage.position);
    for (const ExprId id : program.arena.reachable(roots)) {
      text += expression_text(program.arena, id);
    }
  }
  return text;
}

/// A stage that adds in place what is symbolic, or counts places in it, which
/// are kept in 32 bits: the call that it came from, or "".
std::string symbolic_position(const Program& small, const Program& large) {
  for (std::size_t i = 0; i < small.stages.size(); ++i) {
    const Stage& stage = small.stages[i];
    const bool has_positions = stage.is_add || stage.position >= 0;
    if (has_positions && i < large.stages.size() &&
        stage.inner != large.stages[i].inner) {
      return stage.note;
    }
  }
  return "";
}

/// A tensor of more elements than 64 bits count, whose loops would be computed
/// wrongly: the call that it comes from, or "".
std::string beyond_64_bits(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    for (const auto& value : node.values) {
      std::int64_t elements = 1;
      for (const std::int64_t extent : value ? value->shape : Shape()) {
        if (__builtin_mul_overflow(elements, extent, &elements)) {
          return node.name;
        }
      }
    }
  }
  return "";
}

}  // namespace

bool positions_are_symbolic(const Graph& graph, const Graph& other) {
  LoweringOptions options;
  options.contractions = true;
  options.halves = true;
  options.adds_in_place = true;
  options.for_sizes = true;
  const auto small = lower(graph, options), large = lower(other, options);
  return small && large && !symbolic_position(*small, *large).empty();
}

Result<void> check_any_size(const Graph& graph, LoweringOptions options) {
  options.for_sizes = true;
  if (auto sources = size_sources(graph); !sources) {
    return std::unexpected(sources.error());
  }
  const std::size_t symbols = graph.symbolic_shapes.sizes.size();
  std::vector<Sizes> all = sample_sizes(graph);
  all.emplace_back(kSmall, kSmall + symbols);
  all.emplace_back(kLarge, kLarge + symbols);
  const auto hint = hint_graph(graph);
  if (!hint) return std::unexpected(hint.error());
  all.push_back(hint->symbolic_shapes.sizes);
  std::map<Sizes, Program> programs;
  std::map<Sizes, std::string> texts;
  for (const Sizes& sizes : all) {
    const auto at = graph_at(graph, sizes);
    if (!at) return std::unexpected(at.error());
    if (const std::string name = beyond_64_bits(*at); !name.empty()) {
      return fail(ErrorCode::wrong_input, name + " has more elements at " +
                                              sizes_text(sizes) +
                                              " than 64 bits count");
    }
    auto program = lower(*at, options);
    if (!program) return std::unexpected(program.error());
    texts[sizes] = program_text(*program);
    programs[sizes] = std::move(*program);
  }
  const std::string symbolic_call =
      symbolic_position(programs.begin()->second, programs.rbegin()->second);
  if (!symbolic_call.empty()) {
    return fail(ErrorCode::wrong_input,
                symbolic_call +
                    " adds in place along the batch, or finds places in it, "
                    "which code for any batch does not");
  }
  const auto common = common_text(texts, std::span(kSizeNames).first(symbols));
  if (!common) {
    return fail(
        ErrorCode::wrong_input,
        "its loops are others at another size: " + common.error().message);
  }
  return {};
}

}  // namespace weft
