// port/build: turns a seed's source into a shared library, in the sandbox.
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

 private:
  BuildReply build(const BuildRequest& request);

  Blobs& blobs_;
  KernelCache& cache_;
  WorkQueue queue_;
};

}  // namespace weft
