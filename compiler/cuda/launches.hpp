// What is launched of a CUDA source, and the scratch memory that it takes: JSON
// with the fields of docs/reference/gpu-package.md. It stands in a comment at
// the source's top, for people and so that one file is all of a kernel; it is
// written and read here alone. Whoever builds or calls the kernel gets JSON.
#pragma once

#include <string>
#include <string_view>

#include "compiler/cuda/kernel.hpp"
#include "messages/result.hpp"

namespace weft {

/// The comment, with the newline behind it.
std::string launches_comment(const CudaModule& module);

/// The JSON of a source that begins so. wrong_input: it has none, or none that
/// launches anything.
Result<std::string> launches_in(std::string_view source);

/// The source without the comment.
std::string without_launches(std::string_view source);

}  // namespace weft
