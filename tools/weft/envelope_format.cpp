#include "tools/weft/envelope_format.hpp"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "messages/parse_json.hpp"
#include "messages/shown_text.hpp"
#include "messages/vocabulary.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {

using nlohmann::json;

std::string format_envelope(const Envelope& envelope, std::size_t body_max) {
  const std::time_t seconds = envelope.at_us / 1'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char head[64];
  std::snprintf(head, sizeof head, "%6llu  %02d:%02d:%02d.%03d  <-%5llu  ",
                static_cast<unsigned long long>(envelope.seq), local.tm_hour,
                local.tm_min, local.tm_sec,
                static_cast<int>(envelope.at_us / 1000 % 1000),
                static_cast<unsigned long long>(envelope.cause));
  std::string body = body_to_json(envelope.body);
  if (body.size() > body_max) body = body.substr(0, body_max) + "…";
  return head + terminal_line(envelope.src + " → " + envelope.dst + "  " +
                              envelope.type + " " + body);
}

bool concerns(const Envelope& envelope, const std::string& subgraph) {
  return envelope.src.contains(subgraph) || envelope.dst.contains(subgraph) ||
         envelope.body.contains(subgraph);
}

json envelope_fields(const Envelope& envelope) {
  const json body = json_of_msgpack(envelope.body);
  return {{"seq", envelope.seq},
          {"cause", envelope.cause},
          {"at_us", envelope.at_us},
          {"src", envelope.src},
          {"dst", envelope.dst},
          {"type", envelope.type},
          {"body", body.is_discarded() ? json() : body}};
}

std::string envelope_json(const Envelope& envelope) {
  return json_text(envelope_fields(envelope));
}

}  // namespace weft
