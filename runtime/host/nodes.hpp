// Ports of other machines, as a host uses them. What a node did counts when its
// answer is journaled, which the host tells.
#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "messages/envelope.hpp"
#include "runtime/host/port.hpp"

namespace weft {

class Nodes {
 public:
  using Post = std::function<void(std::vector<Envelope>)>;
  virtual ~Nodes() = default;

  /// The run has begun: from here on the roles are told who comes and goes.
  virtual void attach(Post post) = 0;

  /// A request whose location is a node's, and the message in it. Never
  /// answered where the node goes down: the broker says so to whoever holds
  /// leases there. One that leaves, or is not in any more, has its requests
  /// answered as lost.
  virtual void begin(const Envelope& request, const Message& message,
                     std::stop_token cancelled, Port::Reply reply) = 0;

  /// The reply from a node is durable.
  virtual void journaled(const Envelope& reply) = 0;

  /// Nothing is posted after this. Nodes are told that the run has ended, or
  /// left to wait for whoever resumes it.
  virtual void close(bool has_finished) = 0;
};

}  // namespace weft
