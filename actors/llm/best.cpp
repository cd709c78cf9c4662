#include "actors/llm/best.hpp"

#include <vector>

#include "actors/llm/measured.hpp"
#include "actors/llm/templates.hpp"
#include "actors/llm/text.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/cpu/generate.hpp"
#include "compiler/targets.hpp"
#include "compiler/text/python_text.hpp"
#include "compiler/text/used_definitions.hpp"

namespace weft {
namespace {

/// A longer kernel is left out, and the prompt says so.
constexpr std::size_t kSourceMax = 40'000;

std::string too_long(const std::string& source) {
  return "Its source is left out: it has " + std::to_string(source.size()) +
         " bytes.";
}

std::string fenced(const std::string& source) {
  const std::string fence = fence_for(source);
  return "\n\n" + fence + "\n" + source + (source.ends_with("\n") ? "" : "\n") +
         fence;
}

/// Around C++ that exports kernel_function(inputs…, outputs…).
TemplateWords around_cpu(const std::string& source, const Graph& graph) {
  std::vector<std::string> inputs = input_names(graph);
  std::vector<std::string> results;
  std::string allocations;
  std::string pointers;
  for (const std::string& name : inputs) pointers += name + ".data_ptr(), ";
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const TensorType& type = tensor_type(graph, graph.outputs[i]);
    const std::string& name = results.emplace_back("y" + std::to_string(i));
    allocations += "    " + name + " = torch.empty_strided(" +
                   python_tuple(type.shape) + ", " + python_tuple(type.stride) +
                   ", dtype=torch." + std::string(dtype_name(type.dtype)) +
                   ")\n";
    pointers += name + ".data_ptr(), ";
  }
  pointers.resize(pointers.size() - 2);
  std::string flags;
  for (const std::string& flag : cpu_build_flags()) {
    flags += (flags.empty() ? "" : ", ") + python_string(flag);
  }
  return {{"source", used_definitions(source)},
          {"flags", "[" + flags + "]"},
          {"count", std::to_string(inputs.size() + results.size())},
          {"inputs", joined_names(inputs)},
          {"allocations", allocations},
          {"pointers", pointers},
          {"results", joined_names(results)}};
}

}  // namespace

Result<std::string> answer_form(const Seed& seed, const Graph& graph,
                                const LlmOptions& options, Blobs& blobs) {
  const auto source = blobs.get(seed.source);
  if (!source) return source;
  if (seed.target != cpu_target().name || graph.symbolic_shapes.is_symbolic())
    return source;
  const auto text = template_text("kernel_cpu", options, blobs);
  if (!text) return text;
  return filled(*text, around_cpu(*source, graph));
}

std::string best_text(const RefineRequest& request, const Graph& graph,
                      Blobs& blobs) {
  const SeedResult& best = request.best;
  if (best.seed.id.empty() || !best.timed) return "";
  std::string text = "The best kernel so far, " + best.seed.id + " (" +
                     best.seed.origin + ": " + best.seed.variant +
                     "), runs at " + times_text(best.timing) + ".";
  if (best.seed.source == request.seed.source) {
    return text + " It is the kernel below.\n\n";
  }
  const auto source =
      answer_form(best.seed, graph, request.work.options.llm, blobs);
  if (!source) return text + "\n\n";
  text += source->size() > kSourceMax ? " " + too_long(*source)
                                      : " Its source:" + fenced(*source);
  return text + "\n\n";
}

std::string parts_text(const OptimizeSubgraph& work, Blobs& blobs) {
  if (work.parts.empty()) return "";
  std::string text =
      "These " + std::to_string(work.parts.size()) +
      " kernels do the work now, one after the other. Write one kernel that "
      "does the work of all without the memory traffic between them.\n\n";
  for (const Seed& part : work.parts) {
    const auto source = blobs.get(part.source);
    if (!source) continue;
    const bool is_cpp = part.target == cpu_target().name;
    const std::string shown = is_cpp ? used_definitions(*source) : *source;
    text += "By the " + part.origin + " (" + part.variant + "): ";
    text += shown.size() > kSourceMax ? too_long(shown) : fenced(shown);
    text += "\n\n";
  }
  return text;
}

}  // namespace weft
