// port/library: asks the kernel library, and tells it what came of a subgraph.
#pragma once

#include "actors/role.hpp"
#include "runtime/host/port.hpp"
#include "runtime/machine/work_queue.hpp"
#include "runtime/store/library.hpp"

namespace weft {

class LibraryPort : public Port {
 public:
  LibraryPort(Blobs& blobs, const Library& library);

  void start(const Message& request, Reply reply) override;

 private:
  FindKernelReply find(const FindKernelRequest& request);
  KeepKernelReply keep(const KeepKernelRequest& request);

  Blobs& blobs_;
  const Library& library_;
  WorkQueue queue_{1};
};

}  // namespace weft
