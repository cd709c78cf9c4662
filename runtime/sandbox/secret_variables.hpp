// Which variables of this process's environment no LineProcess gets.
#pragma once

#include <string>

namespace weft {

/// Variables of that name go to no LineProcess: settings name one that holds a
/// key. Of variables with a usual name (…_API_KEY, …_TOKEN) none goes anyway.
void keep_from_processes(const std::string& variable);

}  // namespace weft
