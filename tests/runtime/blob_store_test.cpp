#include "runtime/journal/blob_store.hpp"

#include <atomic>
#include <thread>

#include "runtime/store/sha256.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

struct World {
  Directory folder;
  fs::path file = folder / "journal.db";
  Journal journal = value(Journal::create(file, Sync::normal));
  BlobStore blobs{journal};

  /// What the spine does with a group.
  void commit() {
    const std::lock_guard lock(blobs.journal_mutex());
    value(blobs.flush());
    auto group = envelopes(1, 1);
    value(journal.append(group));
  }
};

TEST_CASE("a blob is there for readers before it is in the journal") {
  World world;
  const std::string hash = world.blobs.put("text");
  CHECK(hash == content_hash("text"));
  CHECK(value(world.blobs.get(hash)) == "text");
  CHECK(!world.journal.get_blob(hash));
}

TEST_CASE("flushed blobs are in the journal after the next append") {
  World world;
  const std::string hash = world.blobs.put("text");
  world.commit();
  CHECK(value(value(Journal::open_read_only(world.file)).get_blob(hash)) ==
        "text");
  CHECK(value(world.blobs.get(hash)) == "text");
}

TEST_CASE("a blob of an earlier process is read from the journal") {
  Directory folder;
  write_example(folder / "journal.db");
  auto journal = value(Journal::open(folder / "journal.db", Sync::normal));
  BlobStore blobs(journal);
  CHECK(value(blobs.get(content_hash("raw"))) == "raw");
  CHECK(value(blobs.get(content_hash("raw"))) == "raw");
}

TEST_CASE("a hash that names nothing is an error that says which") {
  World world;
  const std::string hash = content_hash("never put");
  CHECK(says(world.blobs.get(hash), hash.substr(0, 8)));
}

TEST_CASE("putting the same bytes again is harmless") {
  World world;
  CHECK(world.blobs.put("text") == world.blobs.put("text"));
  world.commit();
  const std::string hash = world.blobs.put("text");
  world.commit();
  CHECK(value(world.blobs.get(hash)) == "text");
  value(world.journal.verify());
}

TEST_CASE("readers, writers and commits at once lose nothing") {
  World world;
  constexpr int blobs_each = 200;
  std::atomic<int> lost = 0;
  std::atomic<int> writing = 3;
  {
    std::vector<std::jthread> threads;
    for (int who = 0; who < 3; ++who) {
      threads.emplace_back([&, who] {
        for (int i = 0; i < blobs_each; ++i) {
          const std::string text =
              std::to_string(who) + "/" + std::to_string(i);
          const auto back = world.blobs.get(world.blobs.put(text));
          if (!back || *back != text) ++lost;
        }
        --writing;
      });
    }
    while (writing > 0) world.commit();
  }
  world.commit();
  CHECK(lost == 0);
  const auto reader = value(Journal::open_read_only(world.file));
  for (int who = 0; who < 3; ++who) {
    for (int i = 0; i < blobs_each; ++i) {
      const std::string text = std::to_string(who) + "/" + std::to_string(i);
      CHECK(value(reader.get_blob(content_hash(text))) == text);
    }
  }
}

}  // namespace
}  // namespace weft
