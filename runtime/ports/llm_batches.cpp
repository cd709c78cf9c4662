#include "runtime/ports/llm_batches.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "runtime/llm/key.hpp"

namespace weft {
namespace {

/// Calls of one round of a search come that close to each other.
constexpr std::chrono::milliseconds kGather{1'000};

/// For a provider that is taking a batch when the process ends.
constexpr std::chrono::milliseconds kGrace{5'000};
constexpr std::chrono::milliseconds kTick{100};

struct Fetched {
  HttpEnd end;
  std::string body;
};

/// Waits for the reply, for `grace` after a stop.
Fetched fetch(HttpClient& http, HttpRequest request,
              const std::stop_token& stop,
              std::chrono::milliseconds grace = {}) {
  auto body = std::make_shared<std::string>();
  auto ended = std::make_shared<std::promise<HttpEnd>>();
  const auto id =
      http.start(std::move(request),
                 {[body](const HttpHead&, std::string_view bytes) {
                    *body += bytes;
                    return HttpClient::Next::more;
                  },
                  [ended](const HttpEnd& end) { ended->set_value(end); }});
  auto end = ended->get_future();
  while (end.wait_for(kTick) != std::future_status::ready) {
    if (!stop.stop_requested()) continue;
    grace -= kTick;
    if (grace < kTick) http.cancel(id);
  }
  return {end.get(), std::move(*body)};
}

bool is_good(const Fetched& fetched) {
  return fetched.end.kind == HttpEnd::Kind::done &&
         fetched.end.head.status / 100 == 2;
}

/// The provider has no such batch, or one whose results cannot be taken: no
/// later look changes that.
bool is_final(const Fetched& fetched) {
  constexpr int kNotFound = 404;
  constexpr int kGone = 410;
  const int status = fetched.end.head.status;
  return fetched.end.kind == HttpEnd::Kind::too_large || status == kNotFound ||
         status == kGone;
}

LlmAnswer answer_of(const LlmEndpoint& endpoint, const std::string& key,
                    const BatchResult& result) {
  HttpEnd end;
  end.sent = true;
  end.head.status = result.status;
  end.head.headers["content-type"] = "application/json";
  return whole_answer(endpoint, key, end, result.body);
}

LlmAnswer failed_answer(Failure failure, bool billed_maybe) {
  LlmAnswer answer;
  answer.failure = std::move(failure);
  answer.billed_maybe = billed_maybe;
  return answer;
}

std::int64_t epoch_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<std::string> ids_of(const std::vector<BatchCall>& calls) {
  std::vector<std::string> ids;
  for (const BatchCall& call : calls) ids.push_back(call.id);
  return ids;
}

}  // namespace

LlmBatches::LlmBatches(Notes notes)
    : notes_(std::move(notes)),
      thread_([this](std::stop_token stop) { loop(std::move(stop)); }) {}

LlmBatches::~LlmBatches() {
  thread_.request_stop();
  thread_.join();
}

void LlmBatches::add(const LlmEndpoint& endpoint, BatchCall call,
                     OnAnswer on_answer) {
  const std::lock_guard lock(mutex_);
  New& batch = new_[endpoint.provider.name];
  batch.endpoint = endpoint;
  batch.answers[call.id] = std::move(on_answer);
  batch.calls.push_back(std::move(call));
  batch.changed = Clock::now();
  wake_.notify_all();
}

void LlmBatches::follow(const LlmEndpoint& endpoint, const std::string& batch,
                        std::int64_t began_s, const std::string& call,
                        OnAnswer on_answer) {
  const std::lock_guard lock(mutex_);
  Batch& followed = batches_[batch];
  followed.endpoint = endpoint;
  followed.began_s = began_s;
  followed.answers[call] = std::move(on_answer);
  followed.since = Clock::now();
  // The run's other calls of the batch come with it.
  followed.next_look = followed.since + kGather;
  wake_.notify_all();
}

void LlmBatches::cancel(const std::string& call) {
  OnAnswer on_answer;
  bool is_sent = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, batch] : new_) {
      const auto found = batch.answers.find(call);
      if (found == batch.answers.end()) continue;
      on_answer = std::move(found->second);
      batch.answers.erase(found);
      std::erase_if(batch.calls,
                    [&](const BatchCall& one) { return one.id == call; });
    }
    for (auto& [id, batch] : batches_) {
      const auto found = batch.answers.find(call);
      if (found == batch.answers.end()) continue;
      on_answer = std::move(found->second);
      batch.answers.erase(found);
      is_sent = true;
    }
    if (!on_answer && is_busy_) withdrawn_.insert(call);
    std::erase_if(batches_,
                  [](const auto& one) { return one.second.answers.empty(); });
    std::erase_if(new_,
                  [](const auto& one) { return one.second.calls.empty(); });
  }
  if (!on_answer) return;
  on_answer(failed_answer({"cancelled", "the asker did not want it"}, is_sent));
}

std::string LlmBatches::waits_for() const {
  const std::lock_guard lock(mutex_);
  if (is_busy_ || !new_.empty() || batches_.empty()) return "";
  std::string text;
  for (const auto& [id, batch] : batches_) {
    const std::chrono::seconds wait(batch.endpoint.batch_wait_s);
    const bool has_waited = Clock::now() >= batch.since + wait;
    if (!batch.was_looked_at || !batch.is_noted || !has_waited) return "";
    const auto count = batch.answers.size();
    text += (text.empty() ? "" : ", ") + std::to_string(count) +
            (count == 1 ? " answer" : " answers") + " of " +
            batch.endpoint.provider.name + "'s batch " + id;
    if (!batch.trouble.empty()) text += " (" + batch.trouble + ")";
  }
  return text;
}

LlmBatches::Clock::time_point LlmBatches::next_time() const {
  Clock::time_point next = Clock::now() + std::chrono::hours(1);
  for (const auto& [name, batch] : new_) {
    next = std::min(next, batch.changed + kGather);
  }
  for (const auto& [id, batch] : batches_)
    next = std::min(next, batch.next_look);
  return next;
}

void LlmBatches::loop(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    const auto until = next_time();
    wake_.wait_until(lock, stop, until, [&] { return next_time() < until; });
    if (stop.stop_requested()) break;
    const auto now = Clock::now();
    const auto is_due = [&](const auto& one) {
      return one.second.changed + kGather <= now;
    };
    if (const auto due = std::ranges::find_if(new_, is_due);
        due != new_.end()) {
      New batch = std::move(due->second);
      new_.erase(due);
      is_busy_ = true;
      lock.unlock();
      start(std::move(batch), stop);
      continue;
    }
    std::string id;
    for (const auto& [name, batch] : batches_) {
      if (batch.next_look <= now) id = name;
    }
    lock.unlock();
    if (!id.empty()) look(id, stop);
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [name, batch] : new_) notes_.unsent(ids_of(batch.calls));
}

LlmBatches::Start LlmBatches::post(const New& batch, std::stop_token stop) {
  const LlmEndpoint& endpoint = batch.endpoint;
  const auto key = usable_key(endpoint);
  if (!key) return {.failure = failed_answer(to_failure(key.error()), false)};
  HttpRequest request = make_batch_calls(endpoint, batch.calls, *key);
  if (has_batch_file(endpoint)) {
    const Fetched file = fetch(http_, std::move(request), stop);
    if (!is_good(file)) {
      LlmAnswer failure = whole_answer(endpoint, *key, file.end, file.body);
      failure.billed_maybe = false;  // a file costs nothing
      return {.failure = std::move(failure)};
    }
    const auto name = batch_id_in(file.body);
    if (!name) {
      return {.failure = failed_answer(to_failure(name.error()), false)};
    }
    request = make_batch_start(endpoint, *name, *key);
  }
  if (stop.stop_requested()) return {};
  const Fetched made = fetch(http_, std::move(request), stop, kGrace);
  if (!is_good(made)) {
    return {.sent = made.end.sent ? Sent::perhaps : Sent::no,
            .failure = whole_answer(endpoint, *key, made.end, made.body)};
  }
  auto id = batch_id_in(made.body);
  if (id) return {.sent = Sent::yes, .batch = std::move(*id)};
  return {.sent = Sent::yes,
          .failure = failed_answer(to_failure(id.error()), true)};
}

void LlmBatches::start(New batch, std::stop_token stop) {
  const Start started = post(batch, stop);
  const std::vector<std::string> calls = ids_of(batch.calls);
  const std::int64_t began_s = epoch_s();
  bool is_noted = true;
  if (!started.batch.empty()) {
    is_noted = notes_.started(calls, started.batch, began_s);
  } else if (stop.stop_requested()) {
    if (started.sent == Sent::no) notes_.unsent(calls);
    return;
  } else {
    for (const auto& [call, on_answer] : batch.answers) {
      on_answer(started.failure);
    }
  }
  std::set<std::string> withdrawn;
  {
    const std::lock_guard lock(mutex_);
    if (!started.batch.empty()) {
      Batch& followed = batches_[started.batch];
      followed.endpoint = batch.endpoint;
      followed.answers = std::move(batch.answers);
      followed.began_s = began_s;
      followed.since = Clock::now();
      followed.next_look = followed.since + std::chrono::milliseconds(
                                                batch.endpoint.batch_poll_ms);
      followed.is_noted = is_noted;
      withdrawn = std::exchange(withdrawn_, {});
    }
    withdrawn_.clear();
    is_busy_ = false;
  }
  for (const std::string& call : withdrawn) cancel(call);
}

void LlmBatches::look(const std::string& id, std::stop_token stop) {
  LlmEndpoint endpoint;
  std::size_t calls = 0;
  std::int64_t began_s = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = batches_.find(id);
    if (found == batches_.end()) return;
    endpoint = found->second.endpoint;
    calls = found->second.answers.size();
    began_s = found->second.began_s;
  }
  const auto key = usable_key(endpoint);
  if (!key) return put_off(id, key.error().message);
  std::string text;
  // False: the look is over.
  const auto get = [&](HttpRequest request) {
    Fetched fetched = fetch(http_, std::move(request), stop);
    text = std::move(fetched.body);
    if (is_good(fetched)) return true;
    LlmAnswer failure = whole_answer(endpoint, *key, fetched.end, text);
    if (!is_final(fetched)) {
      put_off(id, failure.failure.message);
      return false;
    }
    failure.failure.code = "wrong_input";  // asked again, it is paid again
    failure.billed_maybe = true;
    end(id, [&](const std::string&) { return failure; });
    return false;
  };
  if (!get(make_batch_look(endpoint, id, *key))) return;
  const auto state = batch_state_in(endpoint, id, text);
  if (!state) return put_off(id, state.error().message);
  if (!state->has_ended && epoch_s() < began_s + kBatchWallMs / 1000) {
    return put_off(id, "");
  }
  std::map<std::string, BatchResult> results;
  for (const std::string& path :
       state->has_ended ? state->paths : std::vector<std::string>{}) {
    if (!get(make_batch_results(endpoint, path, calls, *key))) return;
    results.merge(batch_results_in(endpoint, text));
  }
  end(id, [&](const std::string& call) {
    const auto found = results.find(call);
    LlmAnswer answer = answer_of(
        endpoint, *key,
        found == results.end() ? missing_batch_result(*state) : found->second);
    if (!state->has_ended) answer.billed_maybe = true;
    return answer;
  });
}

void LlmBatches::put_off(const std::string& id, const std::string& trouble) {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end()) return;
  Batch& batch = found->second;
  batch.trouble = trouble;
  batch.was_looked_at = true;
  batch.next_look =
      Clock::now() + std::chrono::milliseconds(batch.endpoint.batch_poll_ms);
}

void LlmBatches::end(
    const std::string& id,
    const std::function<LlmAnswer(const std::string& call)>& answer) {
  Answers answers;
  {
    const std::lock_guard lock(mutex_);
    const auto found = batches_.find(id);
    if (found == batches_.end()) return;
    answers = std::move(found->second.answers);
    batches_.erase(found);
    is_busy_ = true;
  }
  for (const auto& [call, on_answer] : answers) on_answer(answer(call));
  const std::lock_guard lock(mutex_);
  is_busy_ = false;
}

}  // namespace weft
