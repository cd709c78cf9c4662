#include <doctest/doctest.h>

#include "runtime/ui/access.hpp"
#include "runtime/ui/content_policy.hpp"
#include "runtime/ui/metrics.hpp"

namespace weft {
namespace {

TEST_CASE("only names of our own are answered to") {
  const Access access{"build7", "abc"};
  for (const char* own :
       {"localhost", "localhost:8765", "127.0.0.1:1", "127.9.9.9", "[::1]:80",
        "build7:8765", "10.0.0.3:8765", "[fe80::1]:80"}) {
    CHECK_MESSAGE(is_own_host(access, own), own);
  }
  for (const char* other :
       {"", "evil.example", "evil.example:8765", "localhost.evil.example",
        "127.0.0.1.evil.example", "[evil]", "[::1"}) {
    CHECK_MESSAGE(!is_own_host(access, other), other);
  }
}

TEST_CASE("loopback is known by address, not by looks") {
  CHECK(is_loopback("127.0.0.1"));
  CHECK(is_loopback("::1"));
  CHECK(!is_loopback("0.0.0.0"));
  CHECK(!is_loopback("127.0.0.1.example"));
  CHECK(!is_loopback(""));
}

TEST_CASE("a token is shown as a cookie or as a bearer's") {
  const Access access{"build7", "abc"};
  CHECK(is_admitted(access, "x=1; weft_token=abc", ""));
  CHECK(is_admitted(access, "", "Bearer abc"));
  CHECK(!is_admitted(access, "", ""));
  CHECK(!is_admitted(access, "weft_token=abd", ""));
  CHECK(!is_admitted(access, "weft_token=ab", ""));
  CHECK(!is_admitted(access, "weft_token", ""));
  CHECK(!is_admitted(access, "my_weft_token=abc", ""));
  CHECK(!is_admitted(access, "weft_token=abc", "Bearer abd"));
  CHECK(is_admitted({"localhost", ""}, "", ""));
  CHECK(new_token().size() == 32);
  CHECK(new_token() != new_token());
}

TEST_CASE("a page runs its own scripts alone") {
  const std::string policy =
      content_policy("<script>alert(1)</script><script src='/a.js'></script>");
  // printf 'alert(1)' | openssl dgst -sha256 -binary | base64
  CHECK(
      policy.contains("'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"));
  CHECK(policy.contains("default-src 'none'"));
  CHECK(!policy.contains("script-src 'self' 'unsafe-inline'"));
}

TEST_CASE("a label cannot end its quotes") {
  CHECK(escaped_label("a\"b\\c\nd\x01") == "a\\\"b\\\\c\\nd?");
  CHECK(escaped_label("\xff.py") == "\uFFFD.py");
}

}  // namespace
}  // namespace weft
