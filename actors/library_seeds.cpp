#include "actors/library_seeds.hpp"

#include "actors/device.hpp"
#include "actors/kernel_key.hpp"
#include "actors/llm/patterns.hpp"

namespace weft {
namespace {

/// The port waits a few seconds for other processes at most.
constexpr std::int64_t kLookupMs = 20'000;

}  // namespace

void LibrarySeeds::receive(const Address& from, const Message& message,
                           Context& context) {
  if (const auto* request = std::get_if<SeedsRequest>(&message)) {
    look_up(from, request->work, context);
  } else if (const auto end = effects_.receive(message, context)) {
    found(*end, context);
  }
}

void LibrarySeeds::look_up(const Address& by, const OptimizeSubgraph& work,
                           Context& context) {
  // It knows kernels by their times: where there are none it is not asked.
  if (!can_time(work.options, work.machine)) {
    context.send(by, SeedsReply{work.subgraph, kLibrarySource, {}, {}, {}});
    return;
  }
  const FindKernelRequest request{0, kernel_key(work),
                                  pattern_query(work, context.blobs())};
  const auto effect =
      effects_.start(address::library, request,
                     {"disk", 1, work.subgraph, kLookupMs}, context);
  asked_[effect] = {by, work.subgraph};
}

void LibrarySeeds::found(const EffectResult& end, Context& context) {
  const auto asked = asked_.extract(end.id);
  if (asked.empty()) return;
  SeedsReply reply;
  reply.subgraph = asked.mapped().subgraph;
  reply.origin = kLibrarySource;
  reply.failure = end.failure;
  if (end.failure && !noted_) {
    noted_ = true;
    context.send(address::user,
                 Progress{"", "library", "not used: " + end.failure.message});
  }
  if (!end.failure) {
    const auto& answer = std::get<FindKernelReply>(*end.reply);
    reply.known = answer.kernel;
    reply.patterns = answer.patterns;
  }
  const KnownKernel& known = reply.known;
  if (!known.source.empty()) {
    reply.seeds.push_back({"library-0", known.target, kLibrarySource,
                           known.variant, known.source});
  }
  context.send(asked.mapped().by, reply);
}

}  // namespace weft
