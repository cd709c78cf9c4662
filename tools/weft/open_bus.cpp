#include "tools/weft/open_bus.hpp"

#include <algorithm>
#include <cstdio>
#include <random>

#include "messages/shown_text.hpp"
#include "runtime/bus/membership.hpp"
#include "runtime/store/sha256.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

/// The run's own name: what nodes know it by when its head is another process.
Result<std::string> name_of_run(Journal& journal) {
  constexpr const char* key = "run";
  if (auto name = journal.meta(key)) return *name;
  std::random_device chance;
  std::string seed;
  for (int i = 0; i < 8; ++i) seed += std::to_string(chance()) + " ";
  std::string name = content_hash(seed).substr(0, 32);
  const auto stored = journal.set_meta(key, name);
  if (!stored) return std::unexpected(stored.error());
  return name;
}

}  // namespace

Result<void> check_listening(const ListenFlags& flags) {
  if (flags.endpoint.empty()) return {};
  const auto closed = check_is_closed(flags.endpoint, flags.keys.has_value());
  if (!closed || !flags.keys) return closed;
  const auto keys = read_head_keys(*flags.keys);
  return keys ? closed : std::unexpected(keys.error());
}

Result<std::unique_ptr<HeadBus>> open_bus(const CommonFlags& common,
                                          const ListenFlags& flags,
                                          const RunDirectory& run,
                                          const Installation& installation,
                                          Journal& journal, BlobStore& blobs,
                                          const RunStart& start) {
  auto locations = journaled_locations(journal);
  if (!locations) return std::unexpected(locations.error());
  if (flags.endpoint.empty()) {
    if (locations->nodes.empty()) return nullptr;
    return fail(ErrorCode::wrong_input,
                std::to_string(locations->nodes.size()) +
                    " nodes have a part of this run: resume it with --listen "
                    "tcp://HOST:PORT; what those do that do not come back "
                    "goes elsewhere");
  }
  HeadBus::Options options;
  options.endpoint = flags.endpoint;
  if (flags.keys) {
    auto keys = read_head_keys(*flags.keys);
    if (!keys) return std::unexpected(keys.error());
    options.keys = std::move(*keys);
  }
  auto name = name_of_run(journal);
  if (!name) return std::unexpected(name.error());
  options.run = std::move(*name);
  options.spared_head = locations->spares_head;
  options.spares_head = flags.no_local;
  options.expected = std::move(locations->nodes);
  options.start = start;
  if (!has_class(start)) {
    // Begun by a weft that had only copies of the head as nodes.
    options.only_judges = true;
    wire::Hello own =
        make_hello(installation, weft_version(), !start.machine.gpus.empty());
    const MachineFacts facts = facts_of(own);
    options.start.device_class =
        class_of(facts, start.machine.gpus, start.options.target);
  }
  options.silence_ms = static_cast<std::int64_t>(flags.silence_s * 1000);
  options.heartbeat_ms =
      std::clamp<std::int64_t>(options.silence_ms / 5, 100, 1'000);
  options.state_file = run.folder() / "cluster.json";
  options.log = [quiet = common.quiet || common.json](const std::string& text) {
    if (!quiet)
      std::fprintf(stderr, "weft: %s\n", terminal_paragraph(text).c_str());
  };
  auto bus = std::make_unique<HeadBus>(blobs, std::move(options));
  if (const auto listening = bus->listen(); !listening) {
    return std::unexpected(listening.error());
  }
  return bus;
}

void take_what_nodes_build(HeadBus* bus, BlobStore& blobs, KernelCache& cache,
                           bool head_judges) {
  if (!bus || !head_judges) return;
  bus->on_built([&](const BuildRequest& request,
                    const std::string& artefact) -> Result<void> {
    const auto source = blobs.get(request.source);
    if (!source) return std::unexpected(source.error());
    if (artefact.empty()) {  // too large to travel
      BuildTerms terms(request.wall_ms);
      terms.arch = request.arch;
      const auto built = cache.build(request.target, *source, terms);
      if (!built) return std::unexpected(built.error());
      if (!built->file.empty()) return {};
      return fail(ErrorCode::failed,
                  "what a node has built does not build at the head");
    }
    const auto bytes = blobs.get(artefact);
    if (!bytes) return std::unexpected(bytes.error());
    const auto taken =
        cache.take(request.target, *source, request.arch, *bytes);
    if (!taken) return std::unexpected(taken.error());
    return {};
  });
}

}  // namespace weft
