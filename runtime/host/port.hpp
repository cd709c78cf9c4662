// Where an effect happens. A port gets a request, acts in its own threads or
// processes, and answers once. docs/adding-a-port.md says how to add one.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "messages/envelope.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

class Port {
 public:
  /// May be called from any thread; only the first call counts.
  using Reply = std::function<void(Message)>;

  /// Stops what is under way (processes are killed, threads joined). Replies
  /// may be dropped: a request without a reply is issued again on resume.
  virtual ~Port() = default;

  /// Returns soon. A request that the port does not know is answered with
  /// nothing and must not happen: hosts check the vocabulary.
  virtual void start(const Message& request, Reply reply) = 0;
};

using Ports = std::map<Address, std::unique_ptr<Port>>;

}  // namespace weft
