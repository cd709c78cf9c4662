// Tries, from inside the box, what must not work there: how `weft doctor`
// knows which protections are on, instead of believing.
#pragma once

namespace weft {

/// Prints a line "name<TAB>on or off<TAB>what was seen" for each.
int self_test();

}  // namespace weft
