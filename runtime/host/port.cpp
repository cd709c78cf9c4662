#include "runtime/host/port.hpp"

#include "actors/role.hpp"

namespace weft {
namespace {

template <class Reply, class Request>
Message failed(const Request& request, Failure failure) {
  Reply reply;
  reply.effect = request.effect;
  reply.failure = std::move(failure);
  return reply;
}

/// To add a request: one line.
struct FailedReply {
  Failure failure;

  Message operator()(const CaptureRequest& m) {
    return failed<CaptureReply>(m, failure);
  }
  Message operator()(const WriteFilesRequest& m) {
    return failed<WriteFilesReply>(m, failure);
  }
  Message operator()(const BuildRequest& m) {
    return failed<BuildReply>(m, failure);
  }
  Message operator()(const CheckRequest& m) {
    return failed<CheckReply>(m, failure);
  }
  Message operator()(const TimeRequest& m) {
    return failed<TimeReply>(m, failure);
  }
  Message operator()(const ProbeRequest& m) {
    return failed<ProbeReply>(m, failure);
  }
  Message operator()(const FindKernelRequest& m) {
    return failed<FindKernelReply>(m, failure);
  }
  Message operator()(const KeepKernelRequest& m) {
    return failed<KeepKernelReply>(m, failure);
  }
  Message operator()(const LlmRequest& m) {
    auto reply = failed<LlmReply>(m, failure);
    // Whether a call that failed on its way was counted, nobody knows.
    std::get<LlmReply>(reply).billed_maybe = failure.code == "failed";
    return reply;
  }
  template <class Other>
  Message operator()(const Other& other) {
    return other;
  }
};

}  // namespace

Port* find_port(const Ports& ports, const Address& address) {
  const auto at = [&](const Address& whose) -> Port* {
    const auto found = ports.find(whose);
    return found == ports.end() ? nullptr : found->second.get();
  };
  if (Port* port = at(address)) return port;
  return at(address::at(port_of(address), node_of(location_of(address))));
}

Message failed_reply(const Message& request, Failure failure) {
  return std::visit(FailedReply{std::move(failure)}, request);
}

Message cancelled_reply(const Message& request) {
  return failed_reply(request, {"cancelled", "the asker did not want it"});
}

std::uint64_t effect_of(const Message& message) {
  return std::visit(
      [](const auto& m) -> std::uint64_t {
        if constexpr (requires { m.effect; }) {
          return m.effect;
        } else {
          return 0;
        }
      },
      message);
}

}  // namespace weft
