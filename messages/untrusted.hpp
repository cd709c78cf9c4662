// Checks of paths, names, numbers and nesting that somebody else wrote: in a
// journal, a wire message, a configuration file or a package. Code that uses
// such a value for a file, a folder or a size asks here first.
#pragma once

#include <cstdint>
#include <string_view>

#include "messages/result.hpp"
#include "messages/run.hpp"

namespace weft {

/// A relative path that stays inside the folder it is joined to, whatever links
/// there are not considered. wrong_input names it and says why it does not.
Result<void> check_path_inside(std::string_view path);

/// The same of a single name: no folder in it.
Result<void> check_file_name(std::string_view name);

/// A content hash, which names files of blobs.
Result<void> check_hash(std::string_view hash);

/// wrong_input: `what`, its value and the range it leaves.
Result<void> check_range(std::string_view what, std::int64_t value,
                         std::int64_t least, std::int64_t most);

/// Whether the brackets of a JSON text nest no deeper than 256. It need not be
/// JSON otherwise.
bool is_shallow_json(std::string_view text);

/// Whether these bytes are msgpack that nests no deeper than 256, and announces
/// no more entries than it has bytes.
bool is_shallow_msgpack(std::string_view bytes);

/// The numbers of a machine, and of a GPU, from which kernels are planned.
Result<void> check_machine(const Machine& machine);
Result<void> check_gpu(const Gpu& gpu);

/// What a run is begun with: the problem's name and every number that sizes
/// memory, threads or time. Nothing here says that its code may be trusted.
Result<void> check_start(const RunStart& start);

}  // namespace weft
