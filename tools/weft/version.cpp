#include "tools/weft/version.hpp"

namespace weft {

const char* weft_version() { return WEFT_VERSION; }

}  // namespace weft
