#include "runtime/ports/build_port.hpp"

#include "runtime/machine/stopwatch.hpp"

namespace weft {

BuildPort::BuildPort(Blobs& blobs, KernelCache& cache, int slots)
    : blobs_(blobs), cache_(cache), queue_(static_cast<std::size_t>(slots)) {}

void BuildPort::start(const Message& request, Reply reply) {
  queue_.push([this, request = std::get<BuildRequest>(request),
               reply = std::move(reply)] { reply(build(request)); });
}

BuildReply BuildPort::build(const BuildRequest& request) {
  const Stopwatch watch;
  BuildReply reply{request.effect, {}, "", 0};
  const auto source = blobs_.get(request.source);
  if (!source) {
    reply.failure = {"failed", source.error().message};
    return reply;
  }
  const auto built = cache_.build(request.target, *source, request.wall_ms);
  reply.wall_ms = watch.elapsed_ms();
  if (!built) {
    reply.failure = to_failure(built.error());
    return reply;
  }
  if (!built->log.empty()) reply.log = blobs_.put(built->log);
  if (built->file.empty()) {
    reply.failure = {
        "wrong_input",
        "does not build: " + built->log.substr(0, built->log.find('\n', 200))};
  }
  return reply;
}

}  // namespace weft
