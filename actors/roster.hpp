// Which role stands at which address. Every host makes its roles here, so that
// production, simulation and replay run the same code. To add a role: write its
// files, list it in roster.cpp.
#pragma once

#include <memory>

#include "actors/role.hpp"

namespace weft {

/// Whether `address` belongs to a role (else to a port, or to the user).
bool is_role(const Address& address);

/// A fresh role for `address`; nullptr when no role stands there.
std::unique_ptr<Role> make_role(const Address& address);

}  // namespace weft
