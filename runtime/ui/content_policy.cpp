#include "runtime/ui/content_policy.hpp"

#include <openssl/evp.h>

#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

}  // namespace

std::string content_policy(std::string_view html) {
  std::string scripts = "'self'";
  constexpr std::string_view begin = "<script";
  constexpr std::string_view end = "</script>";
  Sha256 sha256;
  for (auto at = html.find(begin); at != std::string_view::npos;
       at = html.find(begin, at + 1)) {
    const auto from = html.find('>', at);
    const auto to = html.find(end, at);
    if (from == std::string_view::npos || to == std::string_view::npos) break;
    if (from + 1 >= to) continue;  // its text is a file of its own
    const auto digest = sha256(html.substr(from + 1, to - from - 1));
    scripts +=
        " 'sha256-" +
        base64({reinterpret_cast<const char*>(digest.data()), digest.size()}) +
        "'";
  }
  return "default-src 'none'; script-src " + scripts +
         "; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src "
         "'self' data: blob:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'";
}

}  // namespace weft
