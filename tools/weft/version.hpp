// Which weft this is. Alone in its file: the same program as another version is
// one more link, which the tests of nodes are made with.
#pragma once

namespace weft {

const char* weft_version();

}  // namespace weft
