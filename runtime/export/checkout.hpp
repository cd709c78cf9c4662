// Where a problem file comes from: the checkout that it lies in, and the
// licence that is named there. Asked when a run begins, since later the
// checkout may be another or gone.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace weft {

/// Under which name a run's journal keeps checkout_of() (Journal::meta).
inline constexpr const char* kCheckoutMeta = "checkout";

/// Of an existing file, an object:
///   licence_file   "LICENSE", by its path in the checkout; null: none there
///   licence        SPDX, or null where that file is none that is known
///   repo_name      "owner/name"
///   repo_link      "https://host/owner/name"
///   sha            the commit, where the file is as that has it
///   path           the file's, in the checkout
/// What is not known is null. Outside of a checkout of git, a licence beside
/// the file counts alone.
nlohmann::json checkout_of(const std::filesystem::path& file);

/// "https://host/owner/name" of what a remote is called: without user, password
/// and ".git". Empty: it is a folder of this machine.
std::string link_of_remote(const std::string& remote);

}  // namespace weft
