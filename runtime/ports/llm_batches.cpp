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

struct Fetched {
  HttpEnd end;
  std::string body;
};

/// Waits for the reply.
Fetched fetch(HttpClient& http, HttpRequest request, std::stop_token stop) {
  auto body = std::make_shared<std::string>();
  auto ended = std::make_shared<std::promise<HttpEnd>>();
  const auto id =
      http.start(std::move(request),
                 {[body](const HttpHead&, std::string_view bytes) {
                    *body += bytes;
                    return HttpClient::Next::more;
                  },
                  [ended](const HttpEnd& end) { ended->set_value(end); }});
  const std::stop_callback cancels(stop, [&http, id] { http.cancel(id); });
  HttpEnd end = ended->get_future().get();
  return {std::move(end), std::move(*body)};
}

bool is_good(const Fetched& fetched) {
  return fetched.end.kind == HttpEnd::Kind::done &&
         fetched.end.head.status / 100 == 2;
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

}  // namespace

LlmBatches::LlmBatches(OnStarted on_started)
    : on_started_(std::move(on_started)),
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
                        const std::string& call, OnAnswer on_answer) {
  const std::lock_guard lock(mutex_);
  Batch& followed = batches_[batch];
  followed.endpoint = endpoint;
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
    if (!on_answer && is_starting_) withdrawn_.insert(call);
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
  if (is_starting_ || !new_.empty() || batches_.empty()) return "";
  std::string text;
  for (const auto& [id, batch] : batches_) {
    const std::chrono::seconds wait(batch.endpoint.batch_wait_s);
    // A look at least: what was answered meanwhile is taken.
    if (Clock::now() < batch.since + wait ||
        batch.next_look <= batch.since + kGather) {
      return "";
    }
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
    const auto now = Clock::now();
    const auto is_due = [&](const auto& one) {
      return one.second.changed + kGather <= now;
    };
    if (const auto due = std::ranges::find_if(new_, is_due);
        due != new_.end()) {
      New batch = std::move(due->second);
      new_.erase(due);
      is_starting_ = true;
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
}

void LlmBatches::start(New batch, std::stop_token stop) {
  const LlmEndpoint& endpoint = batch.endpoint;
  const auto key = usable_key(endpoint);
  Fetched fetched;
  Result<std::string> id = key;
  if (key) {
    fetched = fetch(http_, make_batch_calls(endpoint, batch.calls, *key), stop);
    if (is_good(fetched)) id = batch_id_in(fetched.body);
    if (is_good(fetched) && id && has_batch_file(endpoint)) {
      fetched = fetch(http_, make_batch_start(endpoint, *id, *key), stop);
      if (is_good(fetched)) id = batch_id_in(fetched.body);
    }
  }
  if (stop.stop_requested()) return;
  std::set<std::string> withdrawn;
  if (key && id && is_good(fetched)) {
    std::vector<std::string> calls;
    for (const BatchCall& call : batch.calls) calls.push_back(call.id);
    on_started_(calls, *id);
    const auto now = Clock::now();
    const std::chrono::milliseconds poll(endpoint.batch_poll_ms);
    const std::lock_guard lock(mutex_);
    batches_[*id] = {endpoint, std::move(batch.answers), now, now + poll, ""};
    is_starting_ = false;
    withdrawn = std::exchange(withdrawn_, {});
  } else {
    const LlmAnswer answer =
        !key ? failed_answer(to_failure(key.error()), false)
        : is_good(fetched)
            ? failed_answer(to_failure(id.error()), true)
            : whole_answer(endpoint, *key, fetched.end, fetched.body);
    for (const auto& [call, on_answer] : batch.answers) on_answer(answer);
    const std::lock_guard lock(mutex_);
    is_starting_ = false;
    withdrawn_.clear();
  }
  for (const std::string& call : withdrawn) cancel(call);
}

void LlmBatches::look(const std::string& id, std::stop_token stop) {
  LlmEndpoint endpoint;
  {
    const std::lock_guard lock(mutex_);
    const auto found = batches_.find(id);
    if (found == batches_.end()) return;
    endpoint = found->second.endpoint;
  }
  const auto key = usable_key(endpoint);
  if (!key) return put_off(id, key.error().message);
  const auto get = [&](HttpRequest request) -> Result<std::string> {
    Fetched fetched = fetch(http_, std::move(request), stop);
    if (is_good(fetched)) return std::move(fetched.body);
    return fail(ErrorCode::failed,
                whole_answer(endpoint, *key, fetched.end, fetched.body)
                    .failure.message);
  };
  const auto body = get(make_batch_look(endpoint, id, *key));
  if (!body) return put_off(id, body.error().message);
  const auto state = batch_state_in(endpoint, id, *body);
  if (!state) return put_off(id, state.error().message);
  if (!state->has_ended) return put_off(id, "");
  std::map<std::string, BatchResult> results;
  for (const std::string& path : state->paths) {
    const auto text = get(make_batch_results(endpoint, path, *key));
    if (!text) return put_off(id, text.error().message);
    results.merge(batch_results_in(endpoint, *text));
  }
  end(id, *state, results, *key);
}

void LlmBatches::put_off(const std::string& id, const std::string& trouble) {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end()) return;
  Batch& batch = found->second;
  batch.trouble = trouble;
  batch.next_look =
      Clock::now() + std::chrono::milliseconds(batch.endpoint.batch_poll_ms);
}

void LlmBatches::end(const std::string& id, const BatchState& state,
                     const std::map<std::string, BatchResult>& results,
                     const std::string& key) {
  Batch batch;
  {
    const std::lock_guard lock(mutex_);
    const auto found = batches_.find(id);
    if (found == batches_.end()) return;
    batch = std::move(found->second);
    batches_.erase(found);
  }
  for (const auto& [call, on_answer] : batch.answers) {
    const auto result = results.find(call);
    on_answer(answer_of(batch.endpoint, key,
                        result == results.end() ? missing_batch_result(state)
                                                : result->second));
  }
}

}  // namespace weft
