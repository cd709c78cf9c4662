#include "runtime/bus/node_blobs.hpp"

#include <doctest/doctest.h>

#include "runtime/store/sha256.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

const std::string text = "what the head has";

/// A head that sends each blob at once, as often as it is asked.
void answer_at_once(NodeBlobs& blobs, int& asked) {
  blobs.set_fetch([&](const std::string& hash) {
    ++asked;
    blobs.deliver(hash, std::make_shared<const std::string>(text));
  });
}

TEST_CASE("a node's blob is fetched once, and then is there") {
  const Directory folder;
  NodeBlobs blobs({folder / "blobs"});
  int asked = 0;
  answer_at_once(blobs, asked);
  CHECK(value(blobs.get(content_hash(text))) == text);
  CHECK(value(blobs.get(content_hash(text))) == text);
  CHECK(asked == 1);
}

TEST_CASE("a blob that the disk does not take reaches who waits for it") {
  NodeBlobs blobs({"/proc/no-such-folder"});
  int asked = 0;
  answer_at_once(blobs, asked);
  CHECK(value(blobs.get(content_hash(text))) == text);
  CHECK(asked == 1);
}

TEST_CASE("a blob that is damaged where it lies is fetched again") {
  const Directory folder;
  NodeBlobs blobs({folder / "blobs"});
  int asked = 0;
  answer_at_once(blobs, asked);
  CHECK(value(blobs.get(content_hash(text))) == text);
  std::ofstream(folder / "blobs" / content_hash(text)) << "damage";
  CHECK(value(blobs.get(content_hash(text))) == text);
  CHECK(asked == 2);
}

TEST_CASE("a blob that is lost on its way is asked for again, not for ever") {
  const Directory folder;
  NodeBlobs every_other({folder / "some", std::uint64_t{2} << 30, 2});
  int asked = 0;
  answer_at_once(every_other, asked);
  every_other.deliver(content_hash("x"), std::make_shared<std::string>("x"));
  CHECK(value(every_other.get(content_hash(text))) == text);
  CHECK(asked == 2);
  NodeBlobs all({folder / "all", std::uint64_t{2} << 30, 1});
  asked = 0;
  answer_at_once(all, asked);
  const auto got = all.get(content_hash(text));
  REQUIRE(!got);
  CHECK(got.error().message.contains("was lost each time"));
  CHECK(asked == 100);
}

TEST_CASE("a blob that the head has not is no reason to wait") {
  const Directory folder;
  NodeBlobs blobs({folder / "blobs"});
  blobs.set_fetch(
      [&](const std::string& hash) { blobs.deliver(hash, nullptr); });
  const auto got = blobs.get(content_hash(text));
  REQUIRE(!got);
  CHECK(got.error().message.contains("the head has no blob"));
}

TEST_CASE("what the disk does not take is pinned once there is room") {
  const Directory folder;
  NodeBlobs blobs({folder / "blobs"});
  const std::string stored = blobs.put("kept");
  // No folder, whoever tries: the tests may run as root.
  fs::remove_all(folder / "blobs");
  std::ofstream(folder / "blobs") << "in the way";
  const std::string text = blobs.put("made");
  const auto refused = blobs.pin(1, encode(BuildReply{1, {}, text, 1, stored}));
  REQUIRE(!refused);
  CHECK(refused.error().message.contains((folder / "blobs").string()));
  fs::remove(folder / "blobs");
  const auto pinned =
      value(blobs.pin(1, encode(BuildReply{1, {}, text, 1, stored})));
  CHECK(pinned.size() == 2);
  CHECK(*blobs.find(text) == "made");
}

TEST_CASE("who waits for a blob when the run ends waits no longer") {
  const Directory folder;
  NodeBlobs blobs({folder / "blobs"});
  blobs.set_fetch([&](const std::string&) { blobs.end_run(); });
  const auto got = blobs.get(content_hash(text));
  REQUIRE(!got);
  CHECK(got.error().message.contains("the run has ended"));
}

}  // namespace
}  // namespace weft
