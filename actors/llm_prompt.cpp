#include "actors/llm_prompt.hpp"

#include <array>
#include <cstdio>

#include "actors/device.hpp"
#include "actors/llm_templates.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {
namespace {

/// Of a compiler's output and of a kernel of somebody else's, in bytes.
constexpr std::size_t kEvidenceMax = 3'000;
constexpr std::size_t kBestSourceMax = 24'000;
/// Of earlier tries, in lines: the last ones.
constexpr std::size_t kHistoryMax = 8;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

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

std::string times_text(const Timing& timing) {
  std::string text = number(timing.candidate.median_us) + " us";
  if (timing.eager.runs > 0) {
    text += ", eager " + number(timing.eager.median_us) + " us";
  }
  if (timing.compile.runs > 0) {
    text += ", torch.compile " + number(timing.compile.median_us) + " us";
  }
  if (timing.floor_us > 0) {
    text +=
        ", moving the bytes that must move " + number(timing.floor_us) + " us";
  }
  return text;
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

std::string history_text(const RefineRequest& request) {
  if (request.history.empty()) return "";
  const std::size_t count = request.history.size();
  const std::size_t from = count > kHistoryMax ? count - kHistoryMax : 0;
  std::string text = "Tried before:\n";
  for (std::size_t i = from; i < count; ++i) {
    text += "- " + tried_line(request.history[i]) + "\n";
  }
  return text + "\n";
}

/// What limits a right kernel: one thing, with its figures.
struct Bottleneck {
  std::string text;
  std::string method;
};

Bottleneck bottleneck_of(const RefineRequest& request) {
  static const std::array<const char*, 4> moving = {
      "read and write each byte once: fuse what is computed in several passes",
      "wider and aligned loads and stores, several in flight a thread",
      "another split of the work over threads and blocks, so that all "
      "bandwidth is used",
      "keep what is read twice in registers or shared memory"};
  static const std::array<const char*, 4> computing = {
      "fewer and cheaper instructions: hoist what does not change, replace "
      "divisions and transcendental functions where the result stays exact",
      "tile for registers and cache", "fewer launches and no temporary memory",
      "another split of the work over threads and blocks"};
  const Timing& timing = request.result.timing;
  const auto turn = static_cast<std::size_t>(std::max(0, request.round - 1));
  Bottleneck found;
  found.text = "It takes " + times_text(timing) + ".";
  if (timing.bytes_floor > 0 && timing.candidate.median_us > 0) {
    const double gbps = static_cast<double>(timing.bytes_floor) / 1e3 /
                        timing.candidate.median_us;
    found.text += " " + std::to_string(timing.bytes_floor) +
                  " bytes must move at least: that is " + number(gbps) +
                  " GB/s.";
  }
  const bool far =
      timing.floor_us > 0 && timing.floor_us < 0.3 * timing.candidate.median_us;
  found.text += far ? " It is far from what memory allows: instructions, "
                      "latency or launches limit it."
                    : " Memory traffic limits it.";
  found.method = (far ? computing : moving)[turn % moving.size()];
  found.text += "\n";
  return found;
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

std::string tried_line(const SeedResult& result) {
  std::string line = "round " + std::to_string(result.seed.round) + ", " +
                     result.seed.variant + ": ";
  if (result.verdict.correct) {
    return line +
           (result.timed ? "right, " + times_text(result.timing) : "right");
  }
  const std::string& reason =
      result.failure ? result.failure.message : result.verdict.reason;
  return line + result.verdict.kind + ", " + reason.substr(0, 200);
}

std::string evidence_of(const SeedResult& result, Blobs& blobs) {
  std::string text =
      result.failure ? result.failure.message : result.verdict.reason;
  if (!result.built && !result.build_log.empty()) {
    if (const auto log = blobs.get(result.build_log)) text = *log;
  }
  text = first_error(text);
  if (text.size() > kEvidenceMax) text.resize(kEvidenceMax);
  return text;
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
  const Bottleneck found = bottleneck_of(request);
  words["bottleneck"] = found.text;
  words["method"] = found.method;
  return words;
}

}  // namespace

Result<std::vector<LlmPart>> seed_prompt(const RefineRequest& request,
                                         Blobs& blobs) {
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
  return writer.take();
}

}  // namespace weft
