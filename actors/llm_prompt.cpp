#include "actors/llm_prompt.hpp"

#include <array>
#include <cstdio>
#include <map>

#include "actors/device.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "embedded/config/prompts/api_cpu.md"
#include "embedded/config/prompts/api_gpu.md"
#include "embedded/config/prompts/device.md"
#include "embedded/config/prompts/faster.md"
#include "embedded/config/prompts/first.md"
#include "embedded/config/prompts/rules.md"
#include "embedded/config/prompts/task.md"
#include "embedded/config/prompts/wrong.md"

namespace weft {
namespace {

using Words = std::map<std::string, std::string>;

/// Of a compiler's output and of a kernel of somebody else's, in bytes.
constexpr std::size_t kEvidenceMax = 3'000;
constexpr std::size_t kBestSourceMax = 24'000;
/// Of earlier tries, in lines: the last ones.
constexpr std::size_t kHistoryMax = 8;

Result<std::string> template_text(const std::string& name,
                                  std::string_view built_in,
                                  const LlmOptions& options, Blobs& blobs) {
  for (const PromptOverride& other : options.prompts) {
    if (other.name == name) return blobs.get(other.blob);
  }
  return std::string(built_in);
}

/// The template with {{name}} replaced; an unknown name stays as it is.
std::string filled(std::string_view text, const Words& words) {
  std::string made;
  while (true) {
    const auto begin = text.find("{{");
    const auto end = text.find("}}", begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) {
      return made.append(text);
    }
    const auto found =
        words.find(std::string(text.substr(begin + 2, end - begin - 2)));
    made.append(text.substr(0, begin));
    made += found == words.end()
                ? std::string(text.substr(begin, end + 2 - begin))
                : found->second;
    text.remove_prefix(end + 2);
  }
}

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
  // A compiler's first error is the one that the others follow from.
  const auto error = text.find("error:");
  if (error != std::string::npos && error > kEvidenceMax / 2) {
    text.erase(0, text.rfind('\n', error) + 1);
  }
  if (text.size() > kEvidenceMax) text.resize(kEvidenceMax);
  return text;
}

Result<std::vector<LlmPart>> seed_prompt(const RefineRequest& request,
                                         Blobs& blobs) {
  const OptimizeSubgraph& work = request.work;
  const LlmOptions& options = work.options.llm;
  const auto graph_text = blobs.get(work.graph);
  if (!graph_text) return std::unexpected(graph_text.error());
  auto graph = parse_graph(*graph_text);
  if (!graph) return std::unexpected(graph.error());
  const Subgraph subgraph{work.subgraph, work.signature, work.type,
                          std::move(*graph)};

  const bool on_gpu = work.options.target != "cpu";
  const bool is_first = request.seed.id.empty();
  const bool is_right = request.result.verdict.correct;
  Words words;
  words["device"] = device_text(work.machine);
  if (on_gpu && work.machine.gpus.empty()) {
    words["device"] =
        "- Triton's interpreter, on the processor: tensors are "
        "on the CPU, and nothing is timed. Write Triton.\n";
  }
  words["reference"] = reference_source(subgraph);
  words["floor"] = "";
  words["round"] = std::to_string(request.round);
  words["best"] = best_text(request, blobs);
  words["history"] = history_text(request);
  if (is_first && request.result.failure) {
    words["best"] += "Your last answer could not be used: " +
                     request.result.failure.message + ".\n\n";
  }
  if (!is_first) {
    const auto source = blobs.get(request.seed.source);
    if (!source) return std::unexpected(source.error());
    words["source"] = *source;
    words["kind"] = request.result.verdict.kind;
    words["evidence"] = evidence_of(request.result, blobs);
    const Bottleneck found = bottleneck_of(request);
    words["bottleneck"] = found.text;
    words["method"] = found.method;
  }

  const std::string_view ask = is_first   ? embedded::config_prompts_first
                               : is_right ? embedded::config_prompts_faster
                                          : embedded::config_prompts_wrong;
  const std::string ask_name = is_first   ? "first"
                               : is_right ? "faster"
                                          : "wrong";
  struct Piece {
    const char* role;
    std::string name;
    std::string_view built_in;
    bool boundary;
  };
  const std::array<Piece, 5> pieces = {{
      {"system", "rules", embedded::config_prompts_rules, false},
      {"system", on_gpu ? "api_gpu" : "api_cpu",
       on_gpu ? embedded::config_prompts_api_gpu
              : embedded::config_prompts_api_cpu,
       false},
      {"system", "device", embedded::config_prompts_device, true},
      {"user", "task", embedded::config_prompts_task, true},
      {"user", ask_name, ask, false},
  }};
  PromptWriter writer(blobs);
  for (const Piece& piece : pieces) {
    const auto text = template_text(piece.name, piece.built_in, options, blobs);
    if (!text) return std::unexpected(text.error());
    writer.add(piece.role, filled(*text, words), piece.boundary);
  }
  return writer.take();
}

}  // namespace weft
