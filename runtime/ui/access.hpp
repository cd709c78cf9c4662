// Who may ask the page server. A browser lets any page that it shows send
// requests to this machine; the Host header tells under what name it was found,
// and a name that is not ours is somebody else's page (DNS rebinding).
#pragma once

#include <string>
#include <string_view>

namespace weft {

struct Access {
  std::string listen_host;  ///< as given to --listen
  std::string token;        ///< empty: whoever reaches the port may ask
};

/// Of "localhost", 127.0.0.0/8 and ::1.
bool is_loopback(std::string_view host);

/// Whether a request for `header` ("localhost:8080", "[::1]:80") is meant for
/// this server: loopback, an address, or the name that it listens on.
bool is_own_host(const Access& access, std::string_view header);

/// Whether the request shows the token, as a cookie or as a bearer's.
bool is_admitted(const Access& access, std::string_view cookies,
                 std::string_view authorization);

/// Compares in a time that does not tell how much of it is right.
bool is_token(const Access& access, std::string_view given);

/// 32 hex digits that nobody can guess.
std::string new_token();

inline constexpr std::string_view kTokenCookie = "weft_token";

}  // namespace weft
