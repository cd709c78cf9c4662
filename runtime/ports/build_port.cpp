#include "runtime/ports/build_port.hpp"

#include <system_error>
#include <utility>

#include "runtime/machine/files.hpp"
#include "runtime/machine/stopwatch.hpp"
#include "runtime/ports/cancellable_work.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// A kernel's library has tens of kilobytes; with a vendor's code in it, tens
/// of megabytes. A larger one does not travel, because it would be in memory.
constexpr std::uintmax_t kArtefactBytesMax = 256 << 20;

}  // namespace

BuildPort::BuildPort(Blobs& blobs, KernelCache& cache, int slots)
    : blobs_(blobs), cache_(cache), queue_(static_cast<std::size_t>(slots)) {}

void BuildPort::start(const Message& request, Reply reply) {
  begin(request, {}, std::move(reply));
}

void BuildPort::begin(const Message& request, std::stop_token cancelled,
                      Reply reply) {
  push_cancellable(queue_, request, cancelled, std::move(reply),
                   [this, request = std::get<BuildRequest>(request),
                    cancelled] { return Message(build(request, cancelled)); });
}

BuildReply BuildPort::build(const BuildRequest& request,
                            std::stop_token cancelled) {
  const Stopwatch watch;
  BuildReply reply{request.effect, {}, "", 0};
  const auto source = blobs_.get(request.source);
  if (!source) {
    reply.failure = {"failed", source.error().message};
    return reply;
  }
  BuildTerms terms(request.wall_ms);
  terms.arch = request.arch;
  terms.cancelled = std::move(cancelled);
  const auto built = cache_.build(request.target, *source, terms);
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
    return reply;
  }
  // Where it cannot be given, whoever verifies it builds it again.
  std::error_code error;
  if (fs::file_size(built->file, error) > kArtefactBytesMax || error) {
    return reply;
  }
  if (const auto bytes = read_file(built->file)) {
    reply.artefact = blobs_.put(*bytes);
  }
  return reply;
}

}  // namespace weft
