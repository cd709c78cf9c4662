#include "actors/seed_generator.hpp"

#include "compiler/targets.hpp"

namespace weft {
namespace {

SeedsReply compile_seeds(const OptimizeSubgraph& work, Blobs& blobs) {
  SeedsReply reply{work.subgraph, "compiler", {}, {}, {}};
  const Target* target = find_target(work.options.target);
  if (!target) {
    reply.failure = {"wrong_input", "no target '" + work.options.target + "'"};
    return reply;
  }
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
  const auto choices = choices_with(work.options.choices);
  if (!choices) {
    reply.failure = to_failure(choices.error());
    return reply;
  }
  const auto sources = generate_sources(
      *target, subgraph, work.machine,
      {work.options.variants_max, work.options.rounding == "free", *choices});
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

void CompilerSeeds::receive(const Address& from, const Message& message,
                            Context& context) {
  if (const auto* request = std::get_if<SeedsRequest>(&message)) {
    context.send(from, compile_seeds(request->work, context.blobs()));
  }
}

}  // namespace weft
