// An envelope as one line: for a person, or for a tool.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "messages/envelope.hpp"

namespace weft {

/// "  12  07:45:31.204  <-  9  extractor → broker  LeaseRequest {…}".
std::string format_envelope(const Envelope& envelope,
                            std::size_t body_max = 160);

/// Whether the subgraph of that id is told of, or speaks, or is spoken to.
bool concerns(const Envelope& envelope, const std::string& subgraph);

/// The whole envelope as one JSON object.
nlohmann::json envelope_fields(const Envelope& envelope);

/// The same as a line. What JSON cannot hold (a NaN, bytes that are no UTF-8)
/// becomes null or a replacement character.
std::string envelope_json(const Envelope& envelope);

}  // namespace weft
