// The head's record of one node: connection, requests and pending answers.
// Plain data of HeadProtocol.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/bus/blob_receiver.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/bus/link.hpp"

namespace weft {

/// A request on its way to a node.
struct NodeRequest {
  std::uint64_t id = 0;  ///< its number in the journal
  std::string node;
  std::string port;  ///< as the node calls it: "port/verify/GPU-8a5c…"
  std::string type;
  std::shared_ptr<const std::string> body;
  bool was_sent = false;  ///< of one that is Lost: the node may have begun it
};

/// A request that a node has, or waits for.
struct HeadWork {
  NodeRequest request;
  bool is_sent = false;
  bool has_reply = false;  // in hand, perhaps without its blobs
  bool is_answered = false;
  bool is_cancelled = false;
  std::string type;
  std::string body;
  std::vector<wire::BlobRef> blobs;
  std::set<std::string> missing;  // of these, their hashes
  int losses = 0;                 // of a blob, after a reply
  std::uint64_t reply_seq = 0;    // in the session of now; 0: none
};

/// A node as the head knows it.
struct HeadNode {
  wire::Hello hello;
  std::string peer;  // empty: not connected
  std::uint64_t session = 0;
  Link link;
  BlobReceiver receiver;
  std::map<std::uint64_t, HeadWork> work;
  std::deque<std::uint64_t> queue;  // not sent, in order
  std::size_t in_flight = 0;        // sent, no reply in hand
  std::int64_t heard_ms = 0;
  std::int64_t spoken_ms = 0;
  std::int64_t piece_ms = 0;   // of a blob that came, or was wanted first
  std::int64_t wanted_ms = 0;  // when it asked for a blob
  std::map<std::uint64_t, std::int64_t> cancelled_ms;  // first, by request
  std::uint64_t answered = 0;
  bool is_leaving = false;
  bool is_dirty = false;
  bool acks_now = false;  // acknowledge before the next frame
};

/// Requests that it may have at once: its slots, and a few to go on with.
std::size_t credit(const HeadNode& node, int prefetch);

/// Asks for the blobs of an answer that the head lacks.
void want_missing(HeadNode& node, const HeadWork& work, std::int64_t now_ms);

/// The node has lost what it answered: the work is to be done again.
void ask_again(HeadNode& node, HeadWork& work);

/// A session begins. All that the node gave no answer to is asked again: it
/// knows what it knows.
void ask_all_again(HeadNode& node, std::int64_t now_ms);

/// Says which answer of the node is overdue; empty: none. `cancel_ms`: the time
/// that it has to answer a cancelled request.
std::string broken_word(const HeadNode& node, std::int64_t cancel_ms,
                        std::int64_t silence_ms, std::int64_t now_ms);

}  // namespace weft
