#include "compiler/cpu/print.hpp"

#include <algorithm>

#include "compiler/compose/sized_sources.hpp"
#include "compiler/cpu/nest.hpp"
#include "compiler/cpu/prelude/prelude.hpp"

namespace weft {
namespace {

std::string signature_text(const Schedule& plan, std::size_t symbols) {
  std::string parameters;
  for (const bool output : {false, true}) {
    for (const Buffer& buffer : plan.program.buffers) {
      const auto kind = output ? BufferKind::output : BufferKind::input;
      if (buffer.kind != kind) continue;
      if (!parameters.empty()) parameters += ", ";
      parameters += (output ? "" : "const ") + stored_type(buffer.dtype) +
                    "* __restrict " + buffer.name;
    }
  }
  for (const std::string_view size : kernel_sizes(symbols)) {
    parameters += ", const int64_t " + std::string(size);
  }
  return "extern \"C\" void kernel_function(" + parameters + ")";
}

/// Whether it looks something up where an index may be outside.
bool checks_indices(const Schedule& plan) {
  std::vector<ExprId> roots;
  for (const Nest& nest : plan.nests) {
    for (const Stage& stage : nest.stages) {
      roots.push_back(stage.value);
      if (stage.is_add) roots.push_back(stage.position);
    }
  }
  const auto all = plan.program.arena.reachable(roots);
  return std::ranges::any_of(all, [&](ExprId id) {
    return plan.program.arena[id].function == "in_bounds";
  });
}

/// What a caller asks after a call, on the same thread.
constexpr std::string_view kOutside =
    "thread_local int64_t outside_found = 0;\n"
    "extern \"C\" int64_t kernel_outside() { return outside_found; }\n\n";

}  // namespace

CpuText print_cpu(const Schedule& plan, const CpuVariant& variant,
                  const LoopFacts& facts, const std::string& title) {
  Writer out;
  std::vector<KernelReason> reasons;
  out.open(signature_text(plan, variant.symbols));
  const bool checks = checks_indices(plan);
  if (checks) out.line("int64_t outside = 0;");
  for (const int result : plan.spilled) {
    const Buffer& buffer = plan.program.buffers[result];
    const std::string type = stored_type(buffer.dtype);
    out.line("const Scratch<" + type + "> " + buffer.name + "_scratch(" +
             std::to_string(elements_of(buffer)) + ");");
    out.line(type + "* const " + buffer.name + " = " + buffer.name +
             "_scratch.data;");
  }
  for (const Nest& nest : plan.nests) {
    NestPrinter printer(plan, nest, variant, facts, out);
    printer.print();
    add_reasons(reasons, nest, {"nest" + std::to_string(reasons.size())},
                printer.tile_reason());
  }
  if (checks) out.line("outside_found = outside;");
  out.close();
  return {title +
              cpu_prelude(variant.vector_width, variant.stream_stores,
                          variant.free_rounding) +
              "\n" + (checks ? std::string(kOutside) : "") + out.str(),
          std::move(reasons)};
}

}  // namespace weft
