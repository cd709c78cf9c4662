// port/build: turns a seed's source into a shared library or a GPU package, in
// the sandbox, and gives it back as a blob: it may run at another location.
#pragma once

#include "actors/role.hpp"
#include "runtime/host/port.hpp"
#include "runtime/machine/work_queue.hpp"
#include "runtime/ports/kernel_cache.hpp"

namespace weft {

class BuildPort : public Port {
 public:
  BuildPort(Blobs& blobs, KernelCache& cache, int slots);

  ~BuildPort() override { cache_.cancel(); }

  void start(const Message& request, Reply reply) override;
  void begin(const Message& request, std::stop_token cancelled,
             Reply reply) override;

 private:
  BuildReply build(const BuildRequest& request, std::stop_token cancelled);

  Blobs& blobs_;
  KernelCache& cache_;
  WorkQueue queue_;
};

}  // namespace weft
