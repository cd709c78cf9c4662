#include "runtime/ui/content_policy.hpp"

#include "runtime/report/report_page.hpp"

namespace weft {

std::string content_policy(std::string_view html) {
  std::string scripts = "'self'";
  constexpr std::string_view begin = "<script";
  constexpr std::string_view end = "</script>";
  for (auto at = html.find(begin); at != std::string_view::npos;
       at = html.find(begin, at + 1)) {
    const auto from = html.find('>', at);
    const auto to = html.find(end, at);
    if (from == std::string_view::npos || to == std::string_view::npos) break;
    if (from + 1 >= to) continue;  // its text is a file of its own
    scripts += " '" + policy_hash(html.substr(from + 1, to - from - 1)) + "'";
  }
  return "default-src 'none'; script-src " + scripts +
         "; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src "
         "'self' data: blob:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'";
}

}  // namespace weft
