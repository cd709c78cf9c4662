#include "actors/llm_prompt.hpp"

#include <algorithm>
#include <array>

#include "actors/device.hpp"
#include "actors/llm_measured.hpp"
#include "actors/llm_search.hpp"
#include "actors/llm_templates.hpp"
#include "actors/mismatch_text.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/fusion/product_count.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {
namespace {

/// Of a compiler's output and of a kernel of somebody else's, in bytes.
constexpr std::size_t kEvidenceMax = 3'000;
constexpr std::size_t kBestSourceMax = 24'000;
/// Of earlier tries, in lines: the last ones, and what each says.
constexpr std::size_t kHistoryMax = 8;
constexpr std::size_t kReasonMax = 200;

std::string device_text(const Machine& machine) {
  if (machine.gpus.empty()) {
    return "- processor: " + machine.name + ", " +
           std::to_string(machine.cores) +
           " cores\n- vectors: " + std::to_string(8 * machine.vector_bytes) +
           " bits\n- caches: L1 " + std::to_string(machine.l1_bytes >> 10) +
           " KiB, L2 " + std::to_string(machine.l2_bytes >> 10) + " KiB\n";
  }
  const Gpu& gpu = machine.gpus.front();
  return "- GPU: " + gpu.name + " (" + gpu.arch + "), " +
         std::to_string(gpu.sms) + " multiprocessors\n- L2 " +
         std::to_string(gpu.l2_bytes >> 20) +
         " MiB, shared memory of a block " +
         std::to_string(gpu.shared_bytes >> 10) + " KiB\n";
}

std::string best_text(const RefineRequest& request, Blobs& blobs) {
  const SeedResult& best = request.best;
  if (best.seed.id.empty() || !best.timed) return "";
  std::string text = "The best kernel so far (" + best.seed.origin + ", " +
                     best.seed.variant + ") takes " + times_text(best.timing) +
                     ".";
  if (best.seed.source == request.seed.source) return text + "\n\n";
  const auto source = blobs.get(best.seed.source);
  if (source && source->size() <= kBestSourceMax) {
    text += " It is:\n\n```\n" + *source + "\n```";
  }
  return text + "\n\n";
}

/// The kernels that one is to do the work of.
std::string parts_text(const OptimizeSubgraph& work, Blobs& blobs) {
  if (work.parts.empty()) return "";
  std::string text = "These " + std::to_string(work.parts.size()) +
                     " kernels do it now, one after the other. Write one that "
                     "does the work of all, without what goes through memory "
                     "between them.\n\n";
  for (const Seed& part : work.parts) {
    const auto source = blobs.get(part.source);
    if (!source || source->size() > kBestSourceMax) continue;
    text += "By the " + part.origin + ", " + part.variant + ":\n\n```\n" +
            *source + "\n```\n\n";
  }
  return text;
}

/// ", 4.2 us", and whether that is a gain, in steps that are no noise.
std::string gain_text(const SeedResult& result, const SeedResult* parent) {
  if (!result.timed) return "";
  const double us = result.timing.candidate.median_us;
  std::string text = ", " + times_text(result.timing);
  if (!parent || !parent->timed) return text;
  const double before_us = parent->timing.candidate.median_us;
  if (us <= (1 - LlmSearch::kGainStep) * before_us) return text + ": a gain";
  const bool is_loss = us >= (1 + LlmSearch::kGainStep) * before_us;
  return text + (is_loss ? ": slower than before" : ": no gain");
}

const SeedResult* parent_of(const Seed& seed, const RefineRequest& request) {
  if (seed.parent.empty()) return nullptr;
  // A beam refines other sources' kernels, too, which are no part of it.
  for (const SeedResult* known : {&request.result, &request.best}) {
    if (known->seed.id == seed.parent) return known;
  }
  const auto found = std::ranges::find_if(
      request.history,
      [&](const SeedResult& one) { return one.seed.id == seed.parent; });
  return found == request.history.end() ? nullptr : &*found;
}

std::string history_text(const RefineRequest& request) {
  if (request.history.empty()) return "";
  const std::size_t count = request.history.size();
  const std::size_t from = count > kHistoryMax ? count - kHistoryMax : 0;
  std::string text = "Tried before:\n";
  for (std::size_t i = from; i < count; ++i) {
    const SeedResult& one = request.history[i];
    text += "- " + tried_line(one, parent_of(one.seed, request)) + "\n";
  }
  return text + "\n";
}

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
  for (const Mismatch& one : verdict.mismatches) {
    text += text.empty() ? "\nThe first elements that are wrong:\n- " : "- ";
    text += mismatch_line(one) + "\n";
  }
  return text;
}

class PromptWriter {
 public:
  explicit PromptWriter(Blobs& blobs) : blobs_(blobs) {}

  void add(const char* role, const std::string& text, bool boundary) {
    parts_.push_back({role, blobs_.put(text), boundary});
  }
  std::vector<LlmPart> take() { return std::move(parts_); }

 private:
  Blobs& blobs_;
  std::vector<LlmPart> parts_;
};

}  // namespace

std::string tried_line(const SeedResult& result, const SeedResult* parent) {
  const Seed& seed = result.seed;
  const std::string round = "round " + std::to_string(seed.round);
  std::string line = seed.variant.starts_with(round + " ")
                         ? seed.variant
                         : round + ", " + seed.variant;
  if (!seed.method.empty()) line += " (" + seed.method + ")";
  line += ": ";
  if (result.verdict.correct) return line + "right" + gain_text(result, parent);
  const std::string& reason =
      result.failure ? result.failure.message : result.verdict.reason;
  return line + result.verdict.kind + ", " + reason.substr(0, kReasonMax);
}

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

/// Of memory: an expanded dimension is there once.
std::int64_t stored_bytes(const TensorType& type) {
  std::int64_t bytes = element_bytes(type.dtype);
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (type.stride[i] != 0) bytes *= type.shape[i];
  }
  return bytes;
}

/// Each input is read once and each result written once.
std::string floor_text(const Graph& graph) {
  std::int64_t read = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind == NodeKind::call || node.values.empty()) continue;
    if (!node.values.front()) continue;
    read += stored_bytes(*node.values.front());
  }
  std::int64_t written = 0;
  for (const std::string& output : graph.outputs) {
    written += stored_bytes(tensor_type(graph, output));
  }
  return "The inputs are " + std::to_string(read) + " bytes, the results " +
         std::to_string(written) + ": that is what must move.";
}

/// What stands for the templates' words.
Result<TemplateWords> seed_words(const RefineRequest& request,
                                 const Subgraph& subgraph, Blobs& blobs) {
  const OptimizeSubgraph& work = request.work;
  const bool is_first = request.seed.id.empty();
  TemplateWords words;
  words["device"] = device_text(work.machine);
  if (!can_time(work.options, work.machine)) {
    words["device"] =
        "- Triton's interpreter, on the processor: tensors are "
        "on the CPU, and nothing is timed. Write Triton.\n";
  }
  words["reference"] = reference_source(subgraph);
  words["floor"] = floor_text(subgraph.graph);
  words["round"] = std::to_string(request.round);
  words["best"] = parts_text(work, blobs) + best_text(request, blobs);
  words["history"] = history_text(request);
  if (is_first) {
    if (request.result.failure) {
      words["best"] += "Your last answer could not be used: " +
                       request.result.failure.message + ".\n\n";
    }
    return words;
  }
  const auto source = blobs.get(request.seed.source);
  if (!source) return std::unexpected(source.error());
  words["source"] = *source;
  words["whose"] = request.seed.origin == "llm"
                       ? "Your file below"
                       : "The kernel below is by the " + request.seed.origin +
                             ", in a form of its own, which is no answer to "
                             "this; what it computes";
  words["kind"] = request.result.verdict.kind;
  words["evidence"] = evidence_of(request.result, blobs);
  const ProductCount products = count_products(subgraph.graph);
  const bool multiplies =
      products.matrix_operations + products.convolution_operations > 0;
  const Bottleneck found =
      bottleneck_of(request.result, multiplies, request.history);
  words["bottleneck"] = found.text;
  words["method"] = found.method;
  return words;
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
  const auto words = seed_words(request, subgraph, blobs);
  if (!words) return std::unexpected(words.error());

  const bool is_first = request.seed.id.empty();
  const bool is_right = request.result.verdict.correct;
  struct Piece {
    const char* role;
    std::string_view name;
    bool boundary;
  };
  const std::array<Piece, 5> pieces = {{
      {"system", "rules", false},
      {"system", is_for_gpu(work.options) ? "api_gpu" : "api_cpu", false},
      {"system", "device", true},
      {"user", "task", true},
      {"user",
       is_first   ? "first"
       : is_right ? "faster"
                  : "wrong",
       false},
  }};
  PromptWriter writer(blobs);
  for (const Piece& piece : pieces) {
    const auto text = template_text(piece.name, work.options.llm, blobs);
    if (!text) return std::unexpected(text.error());
    writer.add(piece.role, filled(*text, *words), piece.boundary);
  }
  const bool asks_for_method = !is_first && is_right;
  return SeedPrompt{writer.take(),
                    asks_for_method ? words->at("method") : std::string()};
}

}  // namespace weft
