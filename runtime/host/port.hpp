// Where an effect happens. A port gets a request, acts in its own threads or
// processes, and answers once. docs/development/adding-a-port.md says how to
// add one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

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

  /// What hosts call. `cancelled` says, from any thread, that the answer is not
  /// wanted any more: a port whose work takes long stops it and answers with
  /// cancelled_reply(). Others end it, and answer as ever.
  virtual void begin(const Message& request, std::stop_token cancelled,
                     Reply reply) {
    (void)cancelled;
    start(request, std::move(reply));
  }

  /// Names an event that may take hours, for people. A run that waits for
  /// nothing else is suspended. Empty: an answer may come soon.
  virtual std::string waits_for() const { return ""; }
};

using Ports = std::map<Address, std::unique_ptr<Port>>;

/// The port for that address: the one of that location, or else its node's. For
/// a device of the head: its own port, or else the head's. nullptr: none.
Port* find_port(const Ports& ports, const Address& address);

/// The reply to `request` that says why there is none: its own kind, with the
/// failure. A request that has no reply with a failure is given back.
Message failed_reply(const Message& request, Failure failure);

/// The same, for what the asker did not want any more.
Message cancelled_reply(const Message& request);

/// The number by which its asker knows a request; 0: it has none.
std::uint64_t effect_of(const Message& message);

}  // namespace weft
