#include "runtime/debug/difference.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "actors/roster.hpp"
#include "messages/parse_json.hpp"
#include "runtime/debug/journal_reader.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::uint64_t kEventsMax = 5'000'000;
constexpr std::size_t kHashDigits = 64;

/// Parts of a message that say what was measured, or where.
constexpr std::string_view kMeasured[] = {
    "timing",      "candidate", "over_eager",   "over_compile",
    "floor_share", "spent",     "build_log",    "artefact",
    "location",    "locations", "weft_version", "decisions"};
/// Texts for people, with numbers that were measured.
constexpr std::string_view kTold[] = {"reason", "summary", "note", "message"};

template <class List>
bool holds(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

/// Numbers become "#": "1.31x" and "1.3x" are "#x".
std::string without_numbers(std::string_view text) {
  std::string out;
  bool in_number = false;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && !in_number) out += '#';
    in_number = is_digit || (in_number && c == '.');
    if (!in_number) out += c;
  }
  return out;
}

/// What of a role's message is its decision.
json decision_in(const json& value, const Journal& journal, bool is_prompt) {
  if (value.is_array()) {
    json out = json::array();
    for (const json& inner : value) {
      out.push_back(decision_in(inner, journal, is_prompt));
    }
    return out;
  }
  if (value.is_string() && is_prompt) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() != kHashDigits) return value;
    const auto blob = journal.get_blob(text);
    return blob ? json(without_numbers(*blob)) : value;
  }
  if (!value.is_object()) return value;
  json out = json::object();
  for (const auto& [name, inner] : value.items()) {
    if (holds(kMeasured, name)) continue;
    if (holds(kTold, name) && inner.is_string()) {
      out[name] = without_numbers(inner.get_ref<const std::string&>());
    } else {
      out[name] = decision_in(inner, journal, is_prompt || name == "parts");
    }
  }
  return out;
}

json body_of(const Envelope& envelope) {
  const auto message = decode(envelope.type, envelope.body);
  const std::string& body = envelope.body;
  json parsed = json_of_msgpack(message ? encode(*message) : body);
  return parsed.is_discarded() ? json() : parsed;
}

/// Whether a role says by it what is to be done: neither how it shares what is
/// scarce (an affair of the moment) nor what it tells people.
bool is_decision(const Envelope& envelope) {
  if (envelope.src == address::broker || !is_role(envelope.src)) return false;
  if (envelope.dst == address::broker) return false;
  if (envelope.dst == address::user) return envelope.type == RunFinished::name;
  return envelope.type != WriteFilesRequest::name &&
         envelope.type != TimerRequest::name;
}

/// A run's events by who says what to whom.
struct Telling {
  struct Event {
    std::uint64_t seq = 0;
    std::string digest;  ///< of the decision in it; empty: it is none
  };
  std::map<std::string, std::vector<Event>> channels;
  std::vector<std::pair<const std::string*, std::size_t>>
      positions;  ///< by seq
};

std::string channel_of(const Envelope& envelope) {
  return envelope.src + "\n" + envelope.dst + "\n" + envelope.type;
}

Result<Telling> telling_of(const Journal& journal) {
  if (journal.last_seq() > kEventsMax) {
    return fail(ErrorCode::wrong_input,
                "a run of more than " + std::to_string(kEventsMax) +
                    " events is too long to be compared");
  }
  Telling telling;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    auto& [name, events] =
        *telling.channels.try_emplace(channel_of(envelope)).first;
    telling.positions.emplace_back(&name, events.size());
    std::string digest;
    if (is_decision(envelope)) {
      const json decision = decision_in(body_of(envelope), journal, false);
      digest = content_hash(
          decision.dump(-1, ' ', false, json::error_handler_t::replace));
    }
    events.push_back({envelope.seq, std::move(digest)});
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return telling;
}

/// The counterpart of an event of `from`; 0: there is none.
std::uint64_t counterpart(const Telling& from, const Telling& to,
                          std::uint64_t seq) {
  if (seq == 0 || seq > from.positions.size()) return 0;
  const auto& [channel, number] = from.positions[seq - 1];
  const auto found = to.channels.find(*channel);
  if (found == to.channels.end() || found->second.size() <= number) return 0;
  return found->second[number].seq;
}

struct Parting {
  std::uint64_t left = 0;
  std::uint64_t right = 0;
  std::uint64_t order() const {
    return left == 0 ? right : right == 0 ? left : std::min(left, right);
  }
};

void compare_channel(const std::vector<Telling::Event>& left,
                     const std::vector<Telling::Event>& right, Difference& sum,
                     std::optional<Parting>& first) {
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const bool in_left = i < left.size();
    const bool in_right = i < right.size();
    const auto& digest = in_left ? left[i].digest : right[i].digest;
    if (digest.empty()) continue;
    if (in_left && in_right && left[i].digest == right[i].digest) {
      ++sum.alike;
      continue;
    }
    ++sum.differing;
    const Parting parting{in_left ? left[i].seq : 0,
                          in_right ? right[i].seq : 0};
    if (!first || parting.order() < first->order()) first = parting;
  }
}

std::optional<Parting> compare(const Telling& left, const Telling& right,
                               Difference& sum) {
  static const std::vector<Telling::Event> none;
  std::optional<Parting> first;
  for (const auto& [channel, events] : left.channels) {
    const auto other = right.channels.find(channel);
    compare_channel(events,
                    other == right.channels.end() ? none : other->second, sum,
                    first);
  }
  for (const auto& [channel, events] : right.channels) {
    if (left.channels.contains(channel)) continue;
    compare_channel(none, events, sum, first);
  }
  return first;
}

class Explainer {
 public:
  Explainer(const Journal& left, const Journal& right,
            const Telling& left_messages, const Telling& right_messages)
      : left_(left, &make_role),
        right_(right, &make_role),
        left_messages_(left_messages),
        right_messages_(right_messages) {}

  Result<void> explain(const Parting& parting, Difference& sum) {
    auto first = pair(parting.left, parting.right);
    if (!first) return std::unexpected(first.error());
    if (first->left) {
      auto causes = left_.causes(parting.left, kChainMax);
      if (!causes) return std::unexpected(causes.error());
      sum.left_causes = std::move(*causes);
    }
    if (first->right) {
      auto causes = right_.causes(parting.right, kChainMax);
      if (!causes) return std::unexpected(causes.error());
      sum.right_causes = std::move(*causes);
    }
    const bool by_left = first->left.has_value();
    const Envelope& decision = by_left ? *first->left : *first->right;
    sum.first = *first;
    if (!first->left || !first->right) {
      if (auto done = find_instead(decision, by_left, sum); !done) return done;
    }
    return find_told(decision, by_left, sum);
  }

 private:
  Result<Pair> pair(std::uint64_t left, std::uint64_t right) {
    Pair pair;
    if (left != 0) {
      auto event = left_.event(left);
      if (!event) return std::unexpected(event.error());
      pair.left = std::move(*event);
    }
    if (right != 0) {
      auto event = right_.event(right);
      if (!event) return std::unexpected(event.error());
      pair.right = std::move(*event);
    }
    if (pair.left && pair.right) {
      pair.fields =
          fields_between(body_of(*pair.left), body_of(*pair.right), kFieldsMax);
    }
    return pair;
  }

  Result<void> find_instead(const Envelope& decision, bool by_left,
                            Difference& sum) {
    const std::uint64_t cause =
        by_left ? counterpart(left_messages_, right_messages_, decision.cause)
                : counterpart(right_messages_, left_messages_, decision.cause);
    if (cause == 0) return {};
    auto consequences =
        (by_left ? right_ : left_).consequences(cause, kChainMax);
    if (!consequences) return std::unexpected(consequences.error());
    std::erase_if(*consequences, [&](const Envelope& envelope) {
      return envelope.src != decision.src || !is_decision(envelope);
    });
    sum.instead = std::move(*consequences);
    return {};
  }

  /// What came to the role up to its decision, the last first.
  Result<void> find_told(const Envelope& decision, bool by_left,
                         Difference& sum) {
    JournalReader& journal_reader = by_left ? left_ : right_;
    for (std::uint64_t seq = decision.cause;
         seq > 0 && sum.inputs.size() < kInputsMax; --seq) {
      const std::string& channel = *(by_left ? left_messages_ : right_messages_)
                                        .positions[seq - 1]
                                        .first;
      if (!channel.contains("\n" + decision.src + "\n")) continue;
      const auto event = journal_reader.event(seq);
      if (!event) return std::unexpected(event.error());
      if (event->src == address::broker) continue;
      const std::uint64_t other =
          by_left ? counterpart(left_messages_, right_messages_, seq)
                  : counterpart(right_messages_, left_messages_, seq);
      auto both = by_left ? pair(seq, other) : pair(other, seq);
      if (!both) return std::unexpected(both.error());
      if (other == 0 || !both->fields.empty()) {
        sum.inputs.push_back(std::move(*both));
      }
    }
    return {};
  }

  JournalReader left_;
  JournalReader right_;
  const Telling& left_messages_;
  const Telling& right_messages_;
};

void collect(const std::string& path, const json& left, const json& right,
             std::size_t most, std::vector<FieldDifference>& found) {
  if (found.size() >= most || left == right) return;
  const auto inner = [&](const std::string& name) {
    return path.empty() ? name : path + "." + name;
  };
  if (left.is_object() && right.is_object()) {
    for (const auto& [name, value] : left.items()) {
      collect(inner(name), value, right.value(name, json()), most, found);
    }
    for (const auto& [name, value] : right.items()) {
      if (!left.contains(name))
        collect(inner(name), json(), value, most, found);
    }
    return;
  }
  if (left.is_array() && right.is_array()) {
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
      collect(inner(std::to_string(i)), i < left.size() ? left[i] : json(),
              i < right.size() ? right[i] : json(), most, found);
    }
    return;
  }
  found.push_back({path, left, right});
}

}  // namespace

std::vector<FieldDifference> fields_between(const json& left, const json& right,
                                            std::size_t most) {
  std::vector<FieldDifference> found;
  collect("", left, right, most, found);
  return found;
}

Result<Difference> difference(const Journal& left, const Journal& right) {
  const auto left_messages = telling_of(left);
  if (!left_messages) return std::unexpected(left_messages.error());
  const auto right_messages = telling_of(right);
  if (!right_messages) return std::unexpected(right_messages.error());
  Difference sum;
  sum.left_events = left_messages->positions.size();
  sum.right_events = right_messages->positions.size();
  const auto first = compare(*left_messages, *right_messages, sum);
  if (!first) return sum;
  Explainer explainer(left, right, *left_messages, *right_messages);
  const auto done = explainer.explain(*first, sum);
  if (!done) return std::unexpected(done.error());
  return sum;
}

}  // namespace weft
