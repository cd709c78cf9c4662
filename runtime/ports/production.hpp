// Puts the real ports of one machine together.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "config/llm_endpoint.hpp"
#include "messages/run.hpp"
#include "runtime/host/port.hpp"
#include "runtime/journal/blob_store.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/ports/kernel_cache.hpp"
#include "runtime/ports/llm_port.hpp"
#include "runtime/store/library.hpp"
#include "runtime/store/run_directory.hpp"

namespace weft {

/// How language models are reached: this process's alone, never a message's.
struct LlmAccess {
  std::vector<LlmEndpoint> endpoints;
  std::filesystem::path cache;  ///< answers of all runs; empty: none
  LlmSpendingLimit limit{};
};

struct Production {
  std::unique_ptr<Library> kernels;
  std::unique_ptr<KernelCache> cache;
  Ports ports;
};

/// missing: a GPU that the run began with is not in this machine.
Result<void> check_devices(const RunStart& start);

/// Everything given outlives what is returned. To add a port: write its files,
/// list it here (docs/development/adding-a-port.md).
Production make_production(const RunDirectory& run, const Scratch& scratch,
                           const Installation& installation, BlobStore& blobs,
                           const RunStart& start, LlmAccess llm);

}  // namespace weft
