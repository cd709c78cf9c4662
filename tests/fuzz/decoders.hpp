// What is fuzzed of the wire: each takes any bytes and must neither crash, nor
// hang, nor let what it decoded break the wire's limits. Run by libFuzzer (the
// fuzz_* programs, cmake -DWEFT_FUZZ=ON) and, over the corpus that it left, by
// the tests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace weft::fuzz {

/// By name: "header", "body", "head", "node", "message".
const std::map<std::string, std::function<void(std::string_view)>>& decoders();

}  // namespace weft::fuzz
