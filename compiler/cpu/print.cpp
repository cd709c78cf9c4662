#include "compiler/cpu/print.hpp"

#include "compiler/cpu/nest.hpp"
#include "compiler/cpu/prelude/prelude.hpp"

namespace weft {
namespace {

std::string signature_text(const Schedule& plan) {
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
  return "extern \"C\" void kernel_function(" + parameters + ")";
}

}  // namespace

std::string print_cpu(const Schedule& plan, const CpuVariant& variant,
                      const CpuFacts& facts, const std::string& title) {
  Writer out;
  out.open(signature_text(plan));
  for (const int result : plan.spilled) {
    const Buffer& buffer = plan.program.buffers[result];
    const std::string type = stored_type(buffer.dtype);
    out.line("const Scratch<" + type + "> " + buffer.name + "_scratch(" +
             std::to_string(elements_of(buffer)) + ");");
    out.line(type + "* const " + buffer.name + " = " + buffer.name +
             "_scratch.data;");
  }
  for (const Nest& nest : plan.nests) {
    NestPrinter(plan, nest, variant, facts, out).print();
  }
  out.close();
  return title + cpu_prelude(variant.lanes, variant.stream_stores) + "\n" +
         out.str();
}

}  // namespace weft
