// An envelope as one line for a person.
#pragma once

#include <string>

#include "messages/envelope.hpp"

namespace weft {

/// "  12  07:45:31.204  <-  9  extractor → broker  LeaseRequest {…}".
std::string story_line(const Envelope& envelope, std::size_t body_max = 160);

}  // namespace weft
