#include "runtime/ports/llm_port.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "runtime/journal/journal.hpp"
#include "runtime/store/sha256.hpp"
#include "tests/runtime/canned_server.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

const std::string kOk = "HTTP/1.1 200 OK\r\nConnection: close\r\n";

/// A stream that says that text, in 100 tokens for 20.
std::string answer_of(const std::string& text) {
  return kOk +
         "Content-Type: text/event-stream\r\n\r\n"
         "data: {\"model\":\"m-1-x\",\"choices\":[{\"index\":0,\"delta\":{"
         "\"content\":\"" +
         text +
         "\"},\"finish_reason\":\"stop\"}]}\n\n"
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,"
         "\"completion_tokens\":20}}\n\ndata: [DONE]\n\n";
}

/// Blobs that are forgotten with the process, as those are that no journal
/// has yet.
class MemoryBlobs : public Blobs {
 public:
  Result<std::string> get(std::string_view hash) override {
    const std::lock_guard lock(mutex_);
    const auto found = blobs_.find(std::string(hash));
    if (found == blobs_.end()) return fail(ErrorCode::damaged, "no blob");
    return found->second;
  }
  std::string put(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    std::string hash = content_hash(bytes);
    blobs_[hash] = bytes;
    return hash;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> blobs_;
};

/// A run's folder, and a cache for all runs beside it.
struct Disk {
  fs::path folder =
      fs::temp_directory_path() / ("weft-llm-port-" + std::to_string(getpid()));
  Disk() {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  ~Disk() { fs::remove_all(folder); }
  fs::path run(int number = 1) const {
    return folder / ("run-" + std::to_string(number) + ".db");
  }
  fs::path cache() const { return folder / "cache.db"; }
};

std::vector<LlmEndpoint> endpoints(const std::string& url) {
  LlmEndpoint endpoint;
  endpoint.provider.name = "mini";
  endpoint.provider.dialect = "openai";
  endpoint.provider.model = "m-1";
  endpoint.provider.prices.input = 3'000'000;
  endpoint.provider.prices.output = 15'000'000;
  endpoint.base_url = url;
  return {endpoint};
}

constexpr std::int64_t kCallMicroUsd = 100 * 3 + 20 * 15;

/// A process of weft: its port and its blobs.
struct Process {
  MemoryBlobs blobs;
  LlmPort port;

  Process(const std::string& url, const fs::path& replies,
          const fs::path& cache = "")
      : port(blobs, {endpoints(url), replies, cache}) {}

  LlmRequest request(std::uint64_t effect, const std::string& prompt) {
    LlmRequest request;
    request.effect = effect;
    request.provider = "mini";
    request.parts = {{"user", blobs.put(prompt), false}};
    return request;
  }

  LlmReply ask(const LlmRequest& request) {
    std::promise<LlmReply> promise;
    port.start(request, [&](const Message& reply) {
      promise.set_value(std::get<LlmReply>(reply));
    });
    return promise.get_future().get();
  }
  LlmReply ask(std::uint64_t effect, const std::string& prompt) {
    return ask(request(effect, prompt));
  }
  std::string text(const LlmReply& reply) {
    REQUIRE(reply.choices.size() == 1);
    return *blobs.get(reply.choices[0].text);
  }
};

TEST_CASE("an answer has its texts as blobs, its tokens and its cost") {
  const Disk disk;
  CannedServer server(answer_of("kernel"));
  Process weft(server.url(), disk.run());
  const LlmReply reply = weft.ask(7, "prompt");
  CHECK_FALSE(reply.failure);
  CHECK(reply.effect == 7);
  CHECK(weft.text(reply) == "kernel");
  CHECK(reply.choices[0].finish_reason == "stop");
  CHECK(reply.usage == LlmUsage{100, 0, 0, 20, 0, true});
  CHECK(reply.micro_usd == kCallMicroUsd);
  CHECK(reply.model == "m-1-x");
  CHECK(reply.http_status == 200);
  CHECK_FALSE(reply.from_cache);
}

TEST_CASE("a call that was answered is not made again by the next process") {
  const Disk disk;
  CannedServer server(answer_of("kernel"));
  LlmReply first;
  {
    Process weft(server.url(), disk.run());
    first = weft.ask(7, "prompt");
  }
  Process again(server.url(), disk.run());
  const LlmReply second = again.ask(7, "prompt");
  CHECK(second == first);
  CHECK(again.text(second) == "kernel");
  CHECK(server.requests() == 1);
  // Another effect is another call.
  again.ask(8, "prompt");
  CHECK(server.requests() == 2);
}

TEST_CASE("a call that died unanswered may have been billed, and is lost") {
  const Disk disk;
  {
    CannedServer silent("");
    Process weft(silent.url(), disk.run());
    std::atomic<bool> answered = false;
    weft.port.start(weft.request(7, "prompt"),
                    [&](const Message&) { answered = true; });
    while (silent.requests() == 0) std::this_thread::yield();
    // The port goes while the call is under way.
    CHECK_FALSE(answered);
  }
  CannedServer server(answer_of("kernel"));
  Process again(server.url(), disk.run());
  const LlmReply reply = again.ask(7, "prompt");
  CHECK(reply.failure.code == "node_lost");
  CHECK(reply.billed_maybe);
  CHECK_FALSE(reply.usage.known);
  CHECK(server.requests() == 0);
  // Who dies before that is journaled is told the same.
  CHECK(again.ask(7, "prompt") == reply);
  // The next try is a call of its own, at its own cost.
  const LlmReply second = again.ask(8, "prompt");
  CHECK_FALSE(second.failure);
  CHECK(second.micro_usd == kCallMicroUsd);
  CHECK(server.requests() == 1);
}

TEST_CASE("a call that is cancelled ends, and may have been billed") {
  const Disk disk;
  CannedServer silent("");
  Process weft(silent.url(), disk.run());
  std::stop_source source;
  std::promise<LlmReply> promise;
  weft.port.begin(weft.request(7, "prompt"), source.get_token(),
                  [&](const Message& reply) {
                    promise.set_value(std::get<LlmReply>(reply));
                  });
  while (silent.requests() == 0) std::this_thread::yield();
  source.request_stop();
  const LlmReply reply = promise.get_future().get();
  CHECK(reply.failure.code == "cancelled");
  CHECK(reply.billed_maybe);
}

TEST_CASE("a call that is cancelled beforehand is not made") {
  const Disk disk;
  CannedServer server(answer_of("kernel"));
  Process weft(server.url(), disk.run());
  std::stop_source source;
  source.request_stop();
  std::promise<LlmReply> promise;
  weft.port.begin(weft.request(7, "prompt"), source.get_token(),
                  [&](const Message& reply) {
                    promise.set_value(std::get<LlmReply>(reply));
                  });
  const LlmReply reply = promise.get_future().get();
  CHECK(reply.failure.code == "cancelled");
  CHECK_FALSE(reply.billed_maybe);
  CHECK(server.requests() == 0);
}

TEST_CASE("the same run again costs nothing") {
  const Disk disk;
  CannedServer server(answer_of("kernel"));
  {
    Process weft(server.url(), disk.run(1), disk.cache());
    weft.ask(1, "prompt");
  }
  Process again(server.url(), disk.run(2), disk.cache());
  const LlmReply reply = again.ask(5, "prompt");
  CHECK(reply.from_cache);
  CHECK(reply.effect == 5);
  CHECK(reply.micro_usd == 0);
  CHECK(reply.usage == LlmUsage{.known = true});
  CHECK(again.text(reply) == "kernel");
  CHECK(server.requests() == 1);
  // What the cache has not is asked.
  CHECK_FALSE(again.ask(6, "another prompt").from_cache);
  CHECK(server.requests() == 2);
}

TEST_CASE("samples of one prompt are kept and given one after the other") {
  const Disk disk;
  {
    CannedServer canned_server(answer_of("one"));
    Process weft(canned_server.url(), disk.run(1));
    weft.ask(1, "prompt");  // no cache: nothing is kept
  }
  CannedServer server(answer_of("kernel"));
  {
    Process weft(server.url(), disk.run(2), disk.cache());
    CHECK_FALSE(weft.ask(1, "prompt").from_cache);
    // A second sample is a second call, not the first one's answer again.
    CHECK_FALSE(weft.ask(2, "prompt").from_cache);
    CHECK(server.requests() == 2);
  }
  Process again(server.url(), disk.run(3), disk.cache());
  CHECK(again.ask(1, "prompt").from_cache);
  CHECK(again.ask(2, "prompt").from_cache);
  CHECK_FALSE(again.ask(3, "prompt").from_cache);
  CHECK(server.requests() == 3);
}

TEST_CASE("another model, text or parameter is another prompt") {
  const LlmEndpoint mini = endpoints("http://x")[0];
  Prompt prompt;
  prompt.texts = {{"user", "a", false}};
  const std::string key = prompt_key(mini, prompt);
  LlmEndpoint other = mini;
  other.provider.model = "m-2";
  CHECK(prompt_key(other, prompt) != key);
  other = mini;
  other.base_url = "http://y";
  CHECK(prompt_key(other, prompt) != key);
  Prompt changed = prompt;
  changed.temperature = 0.5;
  CHECK(prompt_key(mini, changed) != key);
  changed = prompt;
  changed.texts = {{"user", "b", false}};
  CHECK(prompt_key(mini, changed) != key);
  changed.texts = {{"us", "era", false}};
  CHECK(prompt_key(mini, changed) != key);
  // Where a cache may begin changes no answer.
  changed = prompt;
  changed.texts[0].cache_boundary = true;
  CHECK(prompt_key(mini, changed) == key);
}

TEST_CASE("failures are not cached, and say when to come back") {
  const Disk disk;
  CannedServer server(
      "HTTP/1.1 429 Too Many\r\nConnection: close\r\nretry-after-ms: 1500\r\n"
      "Content-Length: 0\r\n\r\n");
  Process weft(server.url(), disk.run(), disk.cache());
  const LlmReply reply = weft.ask(1, "prompt");
  CHECK(reply.failure.code == "rate_limited");
  CHECK(reply.failure.retry_after_ms == 1'500);
  CHECK(reply.http_status == 429);
  CHECK(weft.ask(2, "prompt").failure.code == "rate_limited");
  CHECK(server.requests() == 2);
}

TEST_CASE("what never left may be tried again by who resumes the run") {
  const Disk disk;
  {
    Process weft("http://127.0.0.1:1/v1", disk.run());
    const LlmReply reply = weft.ask(1, "prompt");
    CHECK(reply.failure.code == "failed");
    CHECK_FALSE(reply.billed_maybe);
  }
  CannedServer server(answer_of("kernel"));
  Process again(server.url(), disk.run());
  CHECK_FALSE(again.ask(1, "prompt").failure);
}

TEST_CASE("a key that a server repeats is in no file and no message") {
  const std::string key = "sk-test-0123456789abcdef";
  setenv("WEFT_TEST_KEY", key.c_str(), 1);
  const Disk disk;
  for (const std::string& entry :
       {answer_of("your key is " + key),
        "HTTP/1.1 401 No\r\nConnection: close\r\nx-request-id: " + key +
            "\r\nContent-Type: application/json\r\n\r\n"
            "{\"error\":{\"message\":\"wrong key " +
            key + "\"}}"}) {
    CannedServer server(entry);
    std::vector<LlmEndpoint> with_key = endpoints(server.url());
    with_key[0].key_env = "WEFT_TEST_KEY";
    MemoryBlobs blobs;
    LlmPort port(blobs, {with_key, disk.run(), disk.cache()});
    LlmRequest request;
    request.effect = static_cast<std::uint64_t>(server.url().size());
    request.provider = "mini";
    request.parts = {{"user", blobs.put(entry.substr(0, 15)), false}};
    std::promise<LlmReply> promise;
    port.start(request, [&](const Message& reply) {
      promise.set_value(std::get<LlmReply>(reply));
    });
    const LlmReply reply = promise.get_future().get();
    CHECK(server.requests() == 1);
    CHECK(encode(reply).find(key) == std::string::npos);
    for (const LlmChoice& choice : reply.choices) {
      CHECK(blobs.get(choice.text)->find(key) == std::string::npos);
    }
  }
  int files = 0;
  for (const auto& entry : fs::directory_iterator(disk.folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    CHECK(bytes.find(key) == std::string::npos);
    if (bytes.find("[key]") != std::string::npos) ++files;
  }
  CHECK(files > 0);
  unsetenv("WEFT_TEST_KEY");
}

TEST_CASE("a provider that no settings declare is refused by name") {
  const Disk disk;
  Process weft("http://127.0.0.1:1/v1", disk.run());
  LlmRequest request = weft.request(1, "prompt");
  request.provider = "maxi";
  const LlmReply reply = weft.ask(request);
  CHECK(reply.failure.code == "wrong_input");
  CHECK(reply.failure.message.find("maxi") != std::string::npos);
}

TEST_CASE("a cache that cannot be opened costs money, not the run") {
  const Disk disk;
  CannedServer server(answer_of("kernel"));
  Process weft(server.url(), disk.run(), "/proc/no-such-folder/llm.db");
  CHECK_FALSE(weft.ask(1, "prompt").failure);
}

TEST_CASE("a full cache lets the oldest prompt go") {
  const Disk disk;
  auto cache = LlmCache::open(disk.cache(), 4'000);
  REQUIRE(cache);
  StoredAnswer answer;
  answer.texts = {std::string(1'000, 'k')};
  for (const char* prompt : {"a", "b", "c", "d"}) {
    REQUIRE(cache->add(prompt, answer));
  }
  CHECK_FALSE(*cache->find("a", 0));
  CHECK(*cache->find("d", 0));
}

}  // namespace
}  // namespace weft
