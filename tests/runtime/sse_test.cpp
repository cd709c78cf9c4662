#include "runtime/llm/sse.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace weft {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

/// The events of a stream that comes in these pieces.
Events read(const std::vector<std::string_view>& pieces) {
  Events events;
  const auto take = [&](const SseEvent& event) {
    events.emplace_back(event.name, event.data);
  };
  SseParser parser;
  for (const std::string_view piece : pieces) parser.feed(piece, take);
  parser.finish(take);
  return events;
}

/// The same whichever two bytes the stream is split between, and byte by byte.
Events read_all_ways(std::string_view stream) {
  const Events whole = read({stream});
  for (std::size_t i = 0; i <= stream.size(); ++i) {
    CAPTURE(i);
    CHECK(read({stream.substr(0, i), stream.substr(i)}) == whole);
  }
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < stream.size(); ++i) {
    bytes.push_back(stream.substr(i, 1));
  }
  CHECK(read(bytes) == whole);
  return whole;
}

TEST_CASE("an event is its data, with its name if it has one") {
  CHECK(read_all_ways("data: one\n\nevent: ping\ndata: two\n\n") ==
        Events{{"", "one"}, {"ping", "two"}});
}

TEST_CASE("lines end with LF, CR or both") {
  CHECK(read_all_ways("data: a\r\n\r\ndata: b\r\rdata: c\n\n") ==
        Events{{"", "a"}, {"", "b"}, {"", "c"}});
}

TEST_CASE("several data lines are one text with line breaks") {
  CHECK(read_all_ways("data: a\ndata:\ndata: b\n\n") == Events{{"", "a\n\nb"}});
}

TEST_CASE("only one blank after the colon is not data, and there may be none") {
  CHECK(read_all_ways("data:x\n\ndata:  y\n\ndata\n\n") ==
        Events{{"", "x"}, {"", " y"}, {"", ""}});
}

TEST_CASE("comments, keep-alives and ids alone are no events") {
  CHECK(read_all_ways(":\n\n: ping\n\n: OPENROUTER PROCESSING\nid: 3\n\n"
                      "retry: 100\n\ndata: x\n: ping\n\n\n\n") ==
        Events{{"", "x"}});
}

TEST_CASE("the name of an event without data does not stick to the next") {
  CHECK(read_all_ways("event: ping\n\ndata: x\n\n") == Events{{"", "x"}});
}

TEST_CASE("a byte order mark at the beginning is skipped, and only there") {
  CHECK(read_all_ways("\xEF\xBB\xBF"
                      "data: a\n\ndata: \xEF\xBB\xBF\n\n") ==
        Events{{"", "a"}, {"", "\xEF\xBB\xBF"}});
}

TEST_CASE("U+2028, U+0085 and NUL are text") {
  const std::string text =
      "a\xE2\x80\xA8"
      "b\xC2\x85"
      "c" +
      std::string(1, 0);
  CHECK(read_all_ways("data: " + text + "\n\n") == Events{{"", text}});
}

TEST_CASE("characters of several bytes survive any split") {
  CHECK(read_all_ways("data: Gewebe \xF0\x9F\xA7\xB5 \xC3\xA4\n\n") ==
        Events{{"", "Gewebe \xF0\x9F\xA7\xB5 \xC3\xA4"}});
}

TEST_CASE("the last event needs neither blank line nor line end") {
  CHECK(read_all_ways("data: a\n\ndata: b\n") == Events{{"", "a"}, {"", "b"}});
  CHECK(read_all_ways("data: a\n\ndata: b") == Events{{"", "a"}, {"", "b"}});
}

TEST_CASE("unknown fields are skipped") {
  CHECK(read_all_ways("colour: red\nnonsense\ndata: x\n\n") ==
        Events{{"", "x"}});
}

TEST_CASE("a line may be megabytes long") {
  const std::string text(std::size_t{3} << 20, 'k');
  const auto events = read({"data: ", text, "\n\n"});
  REQUIRE(events.size() == 1);
  CHECK(events[0].second == text);
}

}  // namespace
}  // namespace weft
