#include "runtime/ports/library_port.hpp"

namespace weft {

LibraryPort::LibraryPort(Blobs& blobs, const Library& library)
    : blobs_(blobs), library_(library) {}

void LibraryPort::start(const Message& request, Reply reply) {
  queue_.push([this, request, reply = std::move(reply)] {
    if (const auto* m = std::get_if<FindKernelRequest>(&request)) {
      reply(find(*m));
    } else {
      reply(keep(std::get<KeepKernelRequest>(request)));
    }
  });
}

FindKernelReply LibraryPort::find(const FindKernelRequest& request) {
  FindKernelReply reply;
  reply.effect = request.effect;
  const auto found = library_.find(request.key);
  if (!found) {
    reply.failure = to_failure(found.error());
    return reply;
  }
  if (*found) {
    reply.kernel = (*found)->kernel;
    reply.kernel.source = blobs_.put((*found)->text);
  }
  if (request.similar.features.empty()) return reply;
  // Patterns only help a prompt: without them the kernel still counts.
  if (const auto patterns = library_.similar(request.similar, request.key)) {
    for (const StoredPattern& stored : *patterns) {
      WinningPattern& pattern = reply.patterns.emplace_back(stored.pattern);
      pattern.change = blobs_.put(stored.text);
    }
  }
  return reply;
}

KeepKernelReply LibraryPort::keep(const KeepKernelRequest& request) {
  KeepKernelReply reply;
  reply.effect = request.effect;
  std::string judged;
  std::optional<StoredKernel> best;
  const auto fetch = [&](const std::string& blob, std::string& text) {
    auto bytes = blobs_.get(blob);
    if (!bytes) return reply.failure = to_failure(bytes.error()), false;
    text = std::move(*bytes);
    return true;
  };
  if (!request.judged.empty() && !fetch(request.judged, judged)) return reply;
  if (!request.kernel.source.empty()) {
    best.emplace(request.kernel, "");
    if (!fetch(request.kernel.source, best->text)) return reply;
  }
  std::optional<StoredPattern> pattern;
  if (!request.pattern.change.empty()) {
    pattern.emplace(request.pattern, "");
    if (!fetch(request.pattern.change, pattern->text)) return reply;
  }
  const auto done = library_.keep(request.key, judged, best, pattern);
  if (!done) reply.failure = to_failure(done.error());
  return reply;
}

}  // namespace weft
