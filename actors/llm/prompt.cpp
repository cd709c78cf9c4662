#include "actors/llm/prompt.hpp"

#include <algorithm>

#include "actors/device.hpp"
#include "actors/llm/best.hpp"
#include "actors/llm/facts.hpp"
#include "actors/llm/history.hpp"
#include "actors/llm/measured.hpp"
#include "actors/llm/patterns.hpp"
#include "actors/llm/templates.hpp"
#include "actors/llm/text.hpp"
#include "actors/mismatch_text.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/fusion/product_count.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "messages/formatted.hpp"

namespace weft {
namespace {

/// The limit of a compiler's output, in bytes.
constexpr std::size_t kEvidenceMax = 3'000;
/// The share of the best kernel's time that a better one should take.
constexpr double kTargetShare = 0.9;
/// The speedup over eager that is asked for at least: a kernel must gain 3 %.
constexpr double kGainMin = 1.05;

/// Of a compiler's errors the first, which the others follow from; with the
/// line that says what failed. What is no compiler's stays whole.
std::string first_error(const std::string& text) {
  constexpr std::string_view mark = "error:";
  constexpr std::size_t kHeadMax = 200;
  const auto error = text.find(mark);
  if (error == std::string::npos) return text;
  const auto line_of = [&](std::size_t at) {
    const auto before = text.rfind('\n', at);
    return before == std::string::npos ? 0 : before + 1;
  };
  const std::size_t begin = line_of(error);
  const auto next = text.find(mark, text.find('\n', error));
  std::string head = text.substr(0, std::min(text.find('\n'), begin));
  if (head.size() > kHeadMax) head.resize(kHeadMax);
  if (!head.empty()) head += "\n";
  return head + text.substr(begin, next == std::string::npos
                                       ? std::string::npos
                                       : line_of(next) - begin);
}

/// The first elements that are wrong: what they have in common is where it is.
std::string mismatches_text(const Verdict& verdict) {
  std::string text;
  for (const Mismatch& mismatch : verdict.mismatches) {
    text += text.empty() ? "\nThe first elements that are wrong:\n- " : "- ";
    text += mismatch_line(mismatch) + "\n";
  }
  return text;
}

class PromptWriter {
 public:
  explicit PromptWriter(Blobs& blobs) : blobs_(blobs) {}

  /// Parts are sent as one text: an empty line keeps them apart.
  void add(LlmPart part, std::string text) {
    text.erase(text.find_last_not_of('\n') + 1);
    text += "\n\n";
    part.blob = blobs_.put(text);
    parts_.push_back(std::move(part));
  }
  std::vector<LlmPart> take() { return std::move(parts_); }

 private:
  Blobs& blobs_;
  std::vector<LlmPart> parts_;
};

}  // namespace

std::string evidence_of(const SeedResult& result, Blobs& blobs) {
  std::string text =
      result.failure ? result.failure.message : result.verdict.reason;
  if (!result.built && !result.build_log.empty()) {
    if (const auto log = blobs.get(result.build_log)) text = *log;
  }
  text = first_error(text);
  if (text.size() > kEvidenceMax) text.resize(kEvidenceMax);
  return text + mismatches_text(result.verdict);
}

namespace {

/// The speedup that a better kernel should reach.
std::string target_text(const SeedResult& best) {
  if (best.seed.id.empty() || !best.timed) return "";
  const double ratio = best.timing.over_eager.ratio;
  if (ratio <= 0) {
    return formatted("Target: %.2g of the best kernel's time.\n", kTargetShare);
  }
  if (ratio / kTargetShare < kGainMin) {
    return formatted(
        "Target: %.3gx eager or more. A slower kernel is not used.\n",
        kGainMin);
  }
  return formatted(
      "Target: %.3gx eager or more, which is %.2g of the best kernel's time.\n",
      ratio / kTargetShare, kTargetShare);
}

/// The measurements of the device, the subgraph and the kernel to be improved.
/// Sets the method that is offered.
std::string measured_text(const RefineRequest& request, const Graph& graph,
                          std::string& method) {
  const OptimizeSubgraph& work = request.work;
  if (!can_time(work.options, work.machine)) return "";
  const Roofline roofline = roofline_of(graph, work.machine);
  std::string text = rates_text(work.machine) + share_text(work, roofline) +
                     target_text(request.best);
  if (!request.seed.id.empty() && request.result.verdict.correct &&
      request.result.timed) {
    const ProductCount products = count_products(graph);
    const Situation situation{
        products.matrix_operations + products.convolution_operations > 0,
        is_for_gpu(work.options), roofline.binds ? roofline.us : 0,
        !roofline.by_memory, roofline.is_light};
    const Bottleneck found =
        bottleneck_of(request.result, situation, request.history);
    method = found.method;
    text += "\nThe kernel below: " + found.text +
            "An idea that may help, if it fits the kernel: " + found.method +
            ".\n";
  }
  return text.empty() ? "" : text + "\n";
}

/// The calls and the inputs; how a person draws some is left out.
std::string reference_text(const Subgraph& subgraph) {
  const std::string text = reference_source(subgraph);
  return text.substr(0, text.find("\n\n\ndef get_inputs")) + "\n";
}

std::string threads_text(const Machine& machine) {
  return "Both may use " + std::to_string(machine.cores) +
         (machine.cores == 1 ? " thread." : " threads.");
}

/// The texts for the templates' words; sets `method`, too.
Result<TemplateWords> seed_words(const RefineRequest& request,
                                 const Subgraph& subgraph, Blobs& blobs,
                                 std::string& method) {
  const OptimizeSubgraph& work = request.work;
  const Graph& graph = subgraph.graph;
  TemplateWords words;
  words["device"] = device_text(work);
  words["threads"] = threads_text(work.machine);
  words["reference"] = reference_text(subgraph);
  words["floor"] = floor_text(graph);
  words["facts"] = eager_facts(graph, is_for_gpu(work.options));
  words["tolerance"] = tolerance_text(graph);
  words["round"] = std::to_string(request.round);
  words["best"] = parts_text(work, blobs) + best_text(request, graph, blobs);
  words["patterns"] = patterns_text(request, blobs);
  words["history"] = history_text(request, blobs);
  words["measured"] = measured_text(request, graph, method);
  if (request.seed.id.empty()) {
    if (request.result.failure) {
      words["unusable"] = "Your last answer could not be used: " +
                          request.result.failure.message + ".\n\n";
    }
    words.try_emplace("unusable", "");
    return words;
  }
  const auto source = answer_form(request.seed, graph, work.options.llm, blobs);
  if (!source) return std::unexpected(source.error());
  words["source"] = *source;
  words["fence"] = fence_for(*source);
  const bool is_own = request.seed.origin == "llm";
  words["whose"] =
      is_own ? "Your file below"
             : "The kernel below, by the " + request.seed.origin + ",";
  words["kind"] = verdict_word(request.result);
  words["evidence"] = evidence_of(request.result, blobs);
  return words;
}

struct Piece {
  LlmPart part;
  std::string_view name;
};

/// In the order in which they are sent.
std::vector<Piece> pieces_of(const RefineRequest& request) {
  const bool on_gpu = is_for_gpu(request.work.options);
  const bool is_timed = can_time(request.work.options, request.work.machine);
  const bool is_first = request.seed.id.empty();
  const bool is_right = request.result.verdict.correct;
  std::vector<Piece> pieces = {
      {{"system", "", false}, "rules"},
      {{"system", "", false}, on_gpu ? "api_gpu" : "api_cpu"}};
  if (is_timed) {
    pieces.push_back(
        {{"system", "", false}, on_gpu ? "timing_gpu" : "timing_cpu"});
  }
  pieces.push_back({{"system", "", true}, "device"});
  pieces.push_back({{"user", "", false}, "task"});
  pieces.push_back({{"user", "", false}, "checks"});
  pieces.push_back({{"user", "", true}, on_gpu ? "idioms_gpu" : "idioms_cpu"});
  pieces.push_back({{"user", "", false, true}, "measured"});
  pieces.push_back({{"user", "", false},
                    is_first   ? "propose"
                    : is_right ? "optimize"
                               : "repair"});
  return pieces;
}

}  // namespace

Result<SeedPrompt> seed_prompt(const RefineRequest& request, Blobs& blobs) {
  const OptimizeSubgraph& work = request.work;
  const auto graph_text = blobs.get(work.graph);
  if (!graph_text) return std::unexpected(graph_text.error());
  auto graph = parse_graph(*graph_text);
  if (!graph) return std::unexpected(graph.error());
  const Subgraph subgraph{work.subgraph, work.signature, work.type,
                          std::move(*graph)};
  std::string method;
  const auto words = seed_words(request, subgraph, blobs, method);
  if (!words) return std::unexpected(words.error());
  PromptWriter writer(blobs);
  for (const Piece& piece : pieces_of(request)) {
    auto text = template_text(piece.name, work.options.llm, blobs);
    if (!text) return std::unexpected(text.error());
    if (piece.name.starts_with("idioms")) {
      *text = chosen_sections(*text, idioms_of(subgraph.graph));
    }
    writer.add(piece.part, filled(*text, *words));
  }
  return SeedPrompt{writer.take(), method};
}

}  // namespace weft
