#include "actors/seed_generator.hpp"

#include "compiler/cpu.hpp"

namespace weft {
namespace {

SeedsReply compile_seeds(const OptimizeSubgraph& work, Blobs& blobs) {
  SeedsReply reply{work.subgraph, "compiler", {}, {}};
  const auto text = blobs.get(work.graph);
  if (!text) {
    reply.failure = {"failed", text.error().message};
    return reply;
  }
  auto graph = parse_graph(*text);
  if (!graph) {
    reply.failure = {"failed", graph.error().message};
    return reply;
  }
  const Subgraph subgraph{work.subgraph, work.signature, work.type,
                          std::move(*graph)};
  const CpuFacts facts{work.machine.cores, work.machine.vector_bytes,
                       work.machine.l1_bytes, work.machine.l2_bytes};
  const auto kernels = generate_cpu(subgraph, facts, work.options.variants_max);
  if (!kernels) {
    reply.failure = {"failed", kernels.error().message};
    return reply;
  }
  for (const KernelSource& kernel : *kernels) {
    reply.seeds.push_back({"compiler-" + std::to_string(reply.seeds.size()),
                           work.options.target, "compiler", kernel.variant,
                           blobs.put(kernel.text)});
  }
  return reply;
}

}  // namespace

void CompilerSeeds::receive(const Address& from, const Message& message,
                            Context& context) {
  if (const auto* request = std::get_if<SeedsRequest>(&message)) {
    context.send(from, compile_seeds(request->work, context.blobs()));
  }
}

}  // namespace weft
