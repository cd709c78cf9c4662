// Nodes that are heard before a run begins.
#include "runtime/bus/lobby.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

std::string hello(const std::string& name, const std::string& incarnation) {
  wire::Hello hello;
  hello.name = name;
  hello.incarnation = incarnation;
  return wire::encode_header(hello);
}

std::vector<std::string> names(const HeardNodes& heard, std::int64_t now_ms) {
  std::vector<std::string> all;
  for (const wire::Hello& node : heard.present(now_ms)) {
    all.push_back(node.name);
  }
  return all;
}

using Names = std::vector<std::string>;

TEST_CASE("a node is there until it is silent for too long") {
  HeardNodes heard(1'000);
  heard.on_frame(hello("b", "1"), 0);
  heard.on_frame(hello("a", "1"), 600);
  CHECK(names(heard, 900) == Names{"a", "b"});
  CHECK(names(heard, 1'100) == Names{"a"});
}

TEST_CASE("a node that leaves is not there") {
  HeardNodes heard(1'000);
  heard.on_frame(hello("a", "1"), 0);
  wire::Bye bye;
  bye.node = "a";
  bye.incarnation = "1";
  heard.on_frame(wire::encode_header(bye), 10);
  CHECK(names(heard, 20).empty());
}

TEST_CASE("only a process that was not heard before makes it wait on") {
  HeardNodes heard(10'000);
  heard.on_frame(hello("a", "1"), 0);
  heard.on_frame(hello("a", "1"), 500);
  CHECK(heard.quiet_ms(700) == 700);
  heard.on_frame(hello("a", "2"), 800);
  CHECK(heard.quiet_ms(900) == 100);
}

TEST_CASE("two processes of one name do not keep it waiting") {
  HeardNodes heard(10'000);
  heard.on_frame(hello("a", "1"), 0);
  heard.on_frame(hello("a", "2"), 100);
  heard.on_frame(hello("a", "1"), 200);
  CHECK(heard.quiet_ms(300) == 200);
}

TEST_CASE("what is no frame of weft's is ignored") {
  HeardNodes heard(1'000);
  heard.on_frame("nonsense", 0);
  CHECK(names(heard, 1).empty());
}

}  // namespace
}  // namespace weft
