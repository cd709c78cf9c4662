#include "actors/llm/facts.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "actors/device.hpp"
#include "compiler/choices/cost.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/fusion/product_count.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "messages/formatted.hpp"

namespace weft {
namespace {

/// Memory bounds a kernel whose bytes exceed this multiple of the last cache.
constexpr double kCachesBeyond = 2;
/// Arithmetic below this share of the memory's time is no limit.
constexpr double kLight = 0.1;

std::string rounded_text(double value) {
  return formatted(value < 1000 ? "%.3g" : "%.0f", value);
}

std::string mebibytes(std::int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

double rate(const std::map<std::string, double>& rates, const char* name) {
  const auto found = rates.find(name);
  return found == rates.end() ? 0 : found->second;
}

std::string cpu_text(const Machine& machine) {
  std::string text = "- processor: " + machine.name + ", " +
                     std::to_string(machine.cores) +
                     " cores, all of which the kernel may use\n- vectors: " +
                     std::to_string(8 * machine.vector_bytes) + " bits";
  for (const std::string& set : machine.instruction_sets) text += ", " + set;
  text += "\n- caches: L1 " + std::to_string(machine.l1_bytes >> 10) +
          " KiB and L2 " + std::to_string(machine.l2_bytes >> 10) +
          " KiB for each core";
  if (machine.l3_bytes > 0) {
    text += ", L3 " + mebibytes(machine.l3_bytes) + " for all";
  }
  return text + "\n";
}

std::string gpu_text(const Gpu& gpu) {
  std::string text = "- GPU: " + gpu.name + " (" + gpu.arch + "), " +
                     std::to_string(gpu.sms) + " multiprocessors";
  if (gpu.resident_threads > 0) {
    text += " of " + std::to_string(gpu.resident_threads) + " threads";
  }
  return text + "\n- " + mebibytes(gpu.memory_bytes) + " of memory, L2 " +
         mebibytes(gpu.l2_bytes) + ", shared memory of a block " +
         std::to_string(gpu.shared_bytes >> 10) +
         " KiB, 65536 registers for each multiprocessor\n";
}

/// Bytes of the elements: an expanded dimension is there once, and gaps
/// between elements do not count.
std::int64_t touched_bytes(const TensorType& type) {
  std::int64_t elements = 1;
  std::int64_t span = 1;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const std::int64_t size = type.shape[i];
    if (size == 0) return 0;
    if (type.stride[i] != 0) elements *= size;
    span += (size - 1) * type.stride[i];
  }
  return std::min(elements, span) * element_bytes(type.dtype);
}

struct Moved {
  std::int64_t read = 0;
  std::int64_t written = 0;
};

/// Each input is read once and each result written once.
Moved moved_bytes(const Graph& graph) {
  Moved moved;
  for (const std::string& name : input_names(graph)) {
    const Node* node = graph.find(name);
    if (node->values.empty() || !node->values.front()) continue;
    moved.read += touched_bytes(*node->values.front());
  }
  for (const std::string& output : graph.outputs) {
    moved.written += touched_bytes(tensor_type(graph, output));
  }
  return moved;
}

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 ||
         dtype == DType::bf16;
}

std::string tolerance_of(DType dtype) {
  const std::string name(dtype_name(dtype));
  if (!is_floating(dtype)) return name + ": every element must be equal.";
  std::string floor = "min(3.8e-6 * sqrt(L), 6.1e-5)";
  if (dtype == DType::f64) floor = "7.1e-15 * sqrt(L)";
  if (dtype == DType::f16) floor = "3.9e-3";
  if (dtype == DType::bf16) floor = "3.1e-2";
  return name + ": at most max(8 * the error of eager PyTorch, " + floor + ").";
}

bool has_any(std::string_view target,
             const std::vector<std::string_view>& names) {
  return std::ranges::any_of(names, [&](std::string_view name) {
    return target.starts_with("aten." + std::string(name));
  });
}

/// One operation for each element that a call computes or, as a reduction does,
/// reads. Products are counted apart.
double element_operations(const Graph& graph) {
  double operations = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::call || is_view(node.target) ||
        is_copy(node.target) || is_fill(node.target) ||
        is_product(node.target) || node.values.empty() ||
        !node.values.front()) {
      continue;
    }
    std::int64_t count = element_count(*node.values.front());
    for_each_ref(node, [&](const std::string& name) {
      const Node* input = graph.find(name);
      if (!input || input->values.empty() || !input->values.front()) return;
      count = std::max(count, element_count(*input->values.front()));
    });
    operations += static_cast<double>(count);
  }
  return operations;
}

struct Idiom {
  const char* title;
  std::vector<std::string_view> operators;  ///< that their names begin with
};

const std::vector<Idiom>& idioms() {
  static const std::vector<Idiom> all = {
      {"exponential",
       {"exp", "_softmax", "_log_softmax", "logsumexp", "sigmoid", "silu",
        "tanh", "gelu", "softplus", "mish", "elu", "selu", "celu", "log", "erf",
        "hardswish", "_scaled_dot_product"}},
      {"reduction",
       {"sum",
        "mean",
        "amax",
        "amin",
        "max.",
        "min.",
        "argmax",
        "argmin",
        "prod",
        "var",
        "std",
        "norm",
        "linalg_vector_norm",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "_native_batch_norm",
        "rms_norm",
        "_fused_rms_norm",
        "_softmax",
        "_log_softmax",
        "logsumexp",
        "any",
        "all",
        "nll_loss",
        "topk",
        "sort"}},
      {"scan", {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"}},
      {"gather",
       {"embedding", "gather", "index", "scatter", "take", "nll_loss"}},
      {"product",
       {"mm", "bmm", "addmm", "baddbmm", "addbmm", "matmul", "linear", "dot",
        "mv", "addmv", "convolution", "_scaled_dot_product"}},
      {"pool", {"max_pool", "avg_pool", "adaptive", "_adaptive", "upsample"}},
  };
  return all;
}

}  // namespace

std::string device_text(const OptimizeSubgraph& work) {
  const Machine& machine = work.machine;
  if (!can_time(work.options, machine)) {
    return "- Triton's interpreter, on the processor: tensors are on the CPU, "
           "and nothing is timed. Write Triton.\n";
  }
  std::string text =
      machine.gpus.empty() ? cpu_text(machine) : gpu_text(machine.gpus.front());
  std::string versions;
  for (const auto& [name, version] : machine.versions) {
    versions += (versions.empty() ? "- " : ", ") + name + " " + version;
  }
  return versions.empty() ? text : text + versions + "\n";
}

std::string rates_text(const Machine& machine) {
  const auto& rates =
      machine.gpus.empty() ? machine.cpu_numbers : machine.gpu_numbers;
  struct Rate {
    const char* name;
    const char* text;
  };
  constexpr std::array kRates = {
      Rate{"copy_gbps", " GB/s for a copy (bytes read plus bytes written)"},
      Rate{"read_gbps", " GB/s for reading"},
      Rate{"fp32_gflops", " GFLOP/s for a float32 matrix product"},
      Rate{"fp32_tflops", " TFLOP/s for a float32 matrix product"},
      Rate{"half_tflops", " TFLOP/s for a bfloat16 matrix product"}};
  std::string text;
  for (const Rate& entry : kRates) {
    if (rate(rates, entry.name) <= 0) continue;
    text += (text.empty() ? "Measured on this device with PyTorch: " : ", ") +
            rounded_text(rate(rates, entry.name)) + entry.text;
  }
  return text.empty() ? "" : text + ".\n";
}

std::string tolerance_text(const Graph& graph) {
  std::string text =
      "Tolerance, for each element with the expected value r (float64): error "
      "= |x - r| / (|r| + rms of all r). The root mean square of all errors "
      "may be half as large. L is the number of summed terms.\n";
  std::set<DType> seen;
  for (const std::string& output : graph.outputs) {
    const DType dtype = tensor_type(graph, output).dtype;
    if (seen.insert(dtype).second) text += "- " + tolerance_of(dtype) + "\n";
  }
  return text;
}

std::string floor_text(const Graph& graph) {
  const Moved moved = moved_bytes(graph);
  std::string text = "The inputs have " + std::to_string(moved.read) +
                     " bytes, the results " + std::to_string(moved.written) +
                     ": these must move at least. Results do not overlap "
                     "inputs. Inputs may be views: assume that addresses are "
                     "aligned to their elements only.\n";
  const bool has_integers =
      std::ranges::any_of(input_names(graph), [&](const std::string& name) {
        const DType dtype = tensor_type(graph, name).dtype;
        return !is_floating(dtype) && dtype != DType::boolean;
      });
  if (has_integers) {
    text +=
        "Integer inputs that are used as indices lie in [0, size of the "
        "dimension); other integers are arbitrary.\n";
  }
  return text;
}

std::string eager_facts(const Graph& graph, bool on_gpu) {
  struct Fact {
    std::vector<std::string_view> operators;
    const char* on_cpu;
    const char* on_gpu;
  };
  static const std::vector<Fact> facts = {
      {{"cumsum", "cumprod"},
       "PyTorch's CPU cumsum and cumprod accumulate float32 in float64 and "
       "round each result: a float32 running sum is less exact.",
       ""},
      {{"native_batch_norm", "_native_batch_norm"},
       "PyTorch's CPU batch norm accumulates its statistics in float64.",
       ""},
      {{"var", "std"},
       "PyTorch's CPU var, std and var_mean accumulate float32 in float64.",
       ""},
      {{"sum", "mean"},
       "PyTorch sums float32 in float32, by parts that are added pairwise: one "
       "running sum over a long row is less exact.",
       "PyTorch sums in float32, each thread a part, and adds the parts as a "
       "tree."},
      {{"argmax", "argmin", "max.dim", "min.dim"},
       "Of equal elements PyTorch returns the first index. NaN counts as the "
       "largest (smallest) element.",
       "Of equal elements the first index is returned. NaN counts as the "
       "largest (smallest) element."},
      {{"gelu"},
       "aten.gelu without approximate='tanh' is 0.5 * x * (1 + erf(x / "
       "sqrt(2))).",
       "aten.gelu without approximate='tanh' is 0.5 * x * (1 + erf(x / "
       "sqrt(2)))."},
      {{"_softmax", "_log_softmax", "logsumexp"},
       "PyTorch subtracts the row's maximum first. logsumexp of a row of -inf "
       "is -inf; softmax of it is NaN.",
       "PyTorch subtracts the row's maximum first. logsumexp of a row of -inf "
       "is -inf; softmax of it is NaN."}};
  std::string text;
  for (const Fact& fact : facts) {
    const std::string_view line = on_gpu ? fact.on_gpu : fact.on_cpu;
    const bool fits = std::ranges::any_of(graph.nodes, [&](const Node& node) {
      return node.kind == NodeKind::call &&
             has_any(node.target, fact.operators);
    });
    if (fits && !line.empty()) text += std::string(line) + "\n";
  }
  return text;
}

std::vector<std::string> idioms_of(const Graph& graph) {
  std::vector<std::string> titles;
  for (const Idiom& idiom : idioms()) {
    const bool fits = std::ranges::any_of(graph.nodes, [&](const Node& node) {
      return node.kind == NodeKind::call &&
             has_any(node.target, idiom.operators);
    });
    if (fits) titles.emplace_back(idiom.title);
  }
  if (titles.empty() || titles == std::vector<std::string>{"exponential"}) {
    titles.emplace_back("pointwise");
  }
  return titles;
}

std::string chosen_sections(const std::string& text,
                            const std::vector<std::string>& titles) {
  constexpr std::string_view mark = "\n## ";
  std::size_t at = std::min(text.find(mark), text.size());
  std::string chosen = text.substr(0, at);
  while (at < text.size()) {
    const std::size_t begin = at + mark.size();
    const std::size_t line = std::min(text.find('\n', begin), text.size());
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    const std::string title = text.substr(begin, line - begin);
    if (std::ranges::find(titles, title) != titles.end()) {
      chosen += "\n\nFor " + title + ":" + text.substr(line, end - line);
    }
    at = end;
  }
  return chosen;
}

Roofline roofline_of(const Graph& graph, const Machine& machine) {
  const Moved moved = moved_bytes(graph);
  const ProductCount products = count_products(graph);
  Roofline roofline;
  roofline.bytes = static_cast<double>(moved.read + moved.written);
  roofline.operations = element_operations(graph) +
                        static_cast<double>(products.matrix_operations +
                                            products.convolution_operations);
  double copy_gbps = 0;
  double tflops = 0;
  double cache_bytes = 0;
  if (machine.gpus.empty()) {
    copy_gbps = rate(machine.cpu_numbers, "copy_gbps");
    tflops = rate(machine.cpu_numbers, "fp32_gflops") / 1e3;
    cache_bytes =
        static_cast<double>(std::max(machine.l2_bytes, machine.l3_bytes));
  } else {
    const DeviceRates rates = device_rates(machine);
    copy_gbps = rates.memory_gbps;
    tflops =
        products.half_operations > 0 ? rates.half_tflops : rates.fp32_tflops;
    cache_bytes = static_cast<double>(machine.gpus.front().l2_bytes);
  }
  const double memory_us = copy_gbps > 0 ? roofline.bytes / copy_gbps / 1e3 : 0;
  const double arithmetic_us =
      tflops > 0 ? roofline.operations / tflops / 1e6 : 0;
  roofline.by_memory = memory_us >= arithmetic_us;
  roofline.is_light = arithmetic_us > 0 && arithmetic_us < kLight * memory_us;
  roofline.us = std::max(memory_us, arithmetic_us);
  roofline.binds =
      roofline.us > 0 &&
      (!roofline.by_memory || roofline.bytes > kCachesBeyond * cache_bytes);
  return roofline;
}

std::string share_text(const OptimizeSubgraph& work, const Roofline& roofline) {
  std::string text;
  if (work.share > 0) {
    text += "The subgraph does about " +
            std::to_string(std::max(1, static_cast<int>(100 * work.share))) +
            " % of the model's work, by bytes and operations.\n";
  }
  if (roofline.us <= 0) return text;
  text += "Roofline: " + rounded_text(roofline.us) + " us, by ";
  text +=
      roofline.by_memory
          ? rounded_text(roofline.bytes / 1e6) + " MB at the rate of a copy."
          : rounded_text(roofline.operations / 1e9) +
                " GFLOP at the rate of a large matrix product.";
  if (!roofline.binds) {
    text += " The data fits into the caches: less time is possible.";
  }
  return text + "\n";
}

}  // namespace weft
