#include "runtime/ui/access.hpp"

#include <arpa/inet.h>

#include <cstdio>
#include <random>

namespace weft {
namespace {

/// "[::1]:80" -> "::1", "a.b:80" -> "a.b".
std::string_view without_port(std::string_view header) {
  if (header.starts_with('[')) {
    const auto end = header.find(']');
    return end == std::string_view::npos ? "" : header.substr(1, end - 1);
  }
  return header.substr(0, header.find(':'));
}

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

bool is_loopback(std::string_view host) {
  const std::string text(host);
  if (text == "localhost" || text == "::1") return true;
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 &&
         (ntohl(address.s_addr) >> 24) == 127;
}

bool is_own_host(const Access& access, std::string_view header) {
  const std::string host(without_port(header));
  return is_loopback(host) || is_address(host) ||
         (!host.empty() && host == access.listen_host);
}

bool is_token(const Access& access, std::string_view given) {
  if (given.size() != access.token.size()) return false;
  unsigned char differs = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    differs |= static_cast<unsigned char>(given[i] ^ access.token[i]);
  }
  return differs == 0;
}

bool is_admitted(const Access& access, std::string_view cookies,
                 std::string_view authorization) {
  if (access.token.empty()) return true;
  constexpr std::string_view bearer = "Bearer ";
  if (authorization.starts_with(bearer)) {
    return is_token(access, authorization.substr(bearer.size()));
  }
  while (!cookies.empty()) {
    const auto end = cookies.find(';');
    std::string_view name = cookies.substr(0, end);
    cookies = end == std::string_view::npos ? "" : cookies.substr(end + 1);
    while (name.starts_with(' ')) name.remove_prefix(1);
    const auto equals = name.find('=');
    if (name.substr(0, equals) != kTokenCookie) continue;
    if (equals == std::string_view::npos) continue;
    if (is_token(access, name.substr(equals + 1))) return true;
  }
  return false;
}

std::string new_token() {
  std::random_device chance;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", chance());
    token += digits;
  }
  return token;
}

}  // namespace weft
