#include "actors/seed_generator.hpp"

namespace weft {
namespace {

SeedsReply compile_seeds(const OptimizeSubgraph& work, Blobs& blobs) {
  SeedsReply reply{work.subgraph, "compiler", {}, {}, {}};
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
  const auto sources = compiler_sources(subgraph, work.options, work.machine);
  if (!sources) {
    reply.failure = {"failed", sources.error().message};
    return reply;
  }
  for (const auto& [name, kernel] : *sources) {
    reply.seeds.push_back({"compiler-" + std::to_string(reply.seeds.size()),
                           std::string(name), "compiler", kernel.variant,
                           blobs.put(kernel.text)});
  }
  return reply;
}

}  // namespace

Result<std::vector<TargetSource>> compiler_sources(const Subgraph& subgraph,
                                                   const RunOptions& options,
                                                   const Machine& machine) {
  const Target* target = find_target(options.target);
  if (!target) {
    return fail(ErrorCode::wrong_input, "no target '" + options.target + "'");
  }
  const auto choices = choices_with(options.choices);
  if (!choices) return std::unexpected(choices.error());
  return generate_sources(
      *target, subgraph, machine,
      {options.variants_max, options.rounding == "free", *choices});
}

void CompilerSeeds::receive(const Address& from, const Message& message,
                            Context& context) {
  if (const auto* request = std::get_if<SeedsRequest>(&message)) {
    context.send(from, compile_seeds(request->work, context.blobs()));
  }
}

}  // namespace weft
