// A provider's key: read where it is needed, and taken out of every text that
// leaves. It enters no message, no log, no error, no journal, no sandbox.
#pragma once

#include <string>
#include <string_view>

#include "config/llm_endpoint.hpp"
#include "messages/result.hpp"

namespace weft {

/// The key, or "" for an endpoint without one. missing: the variable is not
/// set, or the file is not there; the message names them. Reads the environment
/// and the file anew each time.
Result<std::string> read_key(const LlmEndpoint& endpoint);

/// What to do where others than its owner may open the key's file; empty:
/// nothing.
std::string key_file_warning(const LlmEndpoint& endpoint);

/// `text` with each occurrence of `key` replaced by "[key]": a server may
/// repeat what it was sent. Words too short to be secret stay.
std::string without_key(std::string text, std::string_view key);

/// missing: no key; wrong_input: the key would go over plain http to another
/// machine.
Result<void> check_key_use(const LlmEndpoint& endpoint, std::string_view key);

/// The key, if the endpoint may be sent it.
Result<std::string> usable_key(const LlmEndpoint& endpoint);

}  // namespace weft
