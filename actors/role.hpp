// A role is a deterministic state machine: one envelope in, any number out. It
// does no I/O: no clock, no file, no random number, no thread. Whoever hosts it
// (CAF, the simulator, the replayer) calls receive() from one thread at a time,
// in the journal's order, and carries away what it sent.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

/// The content-addressed store as a role sees it: a value map. The same hash
/// gives the same bytes for ever, so reading it is no I/O in the sense above.
class Blobs {
 public:
  virtual ~Blobs() = default;

  /// damaged or failed when the store cannot give the bytes.
  virtual Result<std::string> get(std::string_view hash) = 0;

  /// Stores the bytes and returns their hash.
  virtual std::string put(std::string_view bytes) = 0;
};

/// A message on its way out of a role.
struct Outgoing {
  Address dst;
  Message message;
};

/// What a role may use while it handles one envelope.
class Context {
 public:
  /// `now_us` is the time at which the handled envelope was journaled.
  Context(Blobs& blobs, std::int64_t now_us) : blobs_(blobs), now_us_(now_us) {}

  void send(Address dst, Message message) {
    outbox_.push_back({std::move(dst), std::move(message)});
  }
  Blobs& blobs() { return blobs_; }
  std::int64_t now_us() const { return now_us_; }
  std::vector<Outgoing> take_outbox() { return std::move(outbox_); }

 private:
  Blobs& blobs_;
  std::int64_t now_us_;
  std::vector<Outgoing> outbox_;
};

class Role {
 public:
  virtual ~Role() = default;

  /// Messages that the role does not know are ignored: a newer sender may
  /// tell more than this role needs.
  virtual void receive(const Address& from, const Message& message,
                       Context& context) = 0;

  /// On a resume by another weft: the journal has this where the role would
  /// have said something else in its place. A role that goes on from what it
  /// said (a text that it has had checked) goes on from this instead.
  virtual void recall(const Message& recorded) { (void)recorded; }

  /// What the role knows and what it waits for, as data for whoever looks into
  /// a run: an object, of names that the role chooses. Changes nothing, and
  /// nothing is decided by it. Empty: it keeps nothing.
  virtual nlohmann::json describe() const;
};

/// Well-known addresses.
namespace address {
inline const Address user = "user";
inline const Address extractor = "extractor";
inline const Address dispatcher = "dispatcher";
inline const Address composer = "composer";
inline const Address broker = "broker";
inline const Address clock = "port/clock";
inline const Address capture = "port/capture";
inline const Address build = "port/build";
inline const Address verify = "port/verify";
inline const Address files = "port/files";
inline const Address library = "port/library";
inline const Address llm = "port/llm";
inline Address agent(const std::string& subgraph) {
  return "agent/" + subgraph;
}
inline Address seeds(const std::string& source) { return "seeds/" + source; }
inline Address worker(const std::string& subgraph, const std::string& seed) {
  return "worker/" + subgraph + "." + seed;
}
/// A machine that offers ports: who tells the broker of its capacities.
inline Address node(const std::string& name) { return "node/" + name; }
/// The port at that location; itself, at the head.
inline Address at(const Address& port, const Location& location) {
  return location.empty() ? port : port + "@" + location;
}
}  // namespace address

}  // namespace weft
