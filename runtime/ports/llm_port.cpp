#include "runtime/ports/llm_port.hpp"

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "config/llm_settings.hpp"
#include "runtime/journal/chain.hpp"
#include "runtime/llm/reply_reader.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

LlmReply reply_of(const LlmRequest& request, const LlmEndpoint& endpoint,
                  const LlmAnswer& answer) {
  LlmReply reply;
  reply.effect = request.effect;
  reply.failure = answer.failure;
  reply.failure.retry_after_ms =
      std::max<std::int64_t>(0, answer.retry_after_ms);
  reply.usage = answer.usage;
  reply.micro_usd = cost_of(answer.usage, endpoint.provider.prices);
  // Without prices of the user's, the server's word is better than none.
  if (endpoint.provider.prices == LlmPrices{}) {
    reply.micro_usd = std::max<std::int64_t>(0, answer.reported_micro_usd);
  }
  reply.model = answer.model;
  reply.request_id = answer.request_id;
  reply.latency_ms = answer.latency_ms;
  reply.first_token_ms = answer.first_token_ms;
  reply.limits = answer.limits;
  reply.http_status = answer.http_status;
  reply.billed_maybe = answer.billed_maybe;
  return reply;
}

}  // namespace

std::string prompt_key(const LlmEndpoint& endpoint, const Prompt& prompt) {
  std::string text;
  append_text(text, endpoint.provider.dialect);
  append_text(text, endpoint.base_url);
  append_text(text, endpoint.provider.model);
  append_text(text, prompt.effort);
  append_text(text, std::to_string(prompt.temperature));
  append_text(text, std::to_string(prompt.max_tokens));
  append_text(text, std::to_string(prompt.samples));
  for (const PromptText& part : prompt.texts) {
    if (part.varies) continue;
    append_text(text, part.role);
    append_text(text, part.text);
  }
  return content_hash(text);
}

LlmPort::LlmPort(Blobs& blobs, Options options)
    : blobs_(blobs),
      options_(std::move(options)),
      batches_({.started =
                    [this](const std::vector<std::string>& calls,
                           const std::string& batch, std::int64_t began_s) {
                      return in_queue([&] {
                        return replies_->note_batch(calls, batch, began_s)
                            .has_value();
                      });
                    },
                .unsent =
                    [this](const std::vector<std::string>& calls) {
                      in_queue([&] {
                        for (const std::string& call : calls) {
                          (void)replies_->forget_asked(call);
                        }
                        return true;
                      });
                    }}) {}

bool LlmPort::in_queue(const std::function<bool()>& job) {
  std::promise<bool> done;
  queue_.push([&] { done.set_value(job()); });
  return done.get_future().get();
}

LlmPort::~LlmPort() {
  // Calls that end because weft does have had no answer. Once the queue's jobs
  // have seen that, none uses the client or the batches any more; the batches
  // still use the queue.
  closing_ = true;
  in_queue([] { return true; });
}

void LlmPort::start(const Message& request, Reply reply) {
  begin(request, {}, std::move(reply));
}

void LlmPort::begin(const Message& request, std::stop_token cancelled,
                    Reply reply) {
  const auto* asked = std::get_if<LlmRequest>(&request);
  if (asked == nullptr) return;
  Call call;
  call.request = *asked;
  call.id = content_hash(encode(request));
  call.reply = std::move(reply);
  call.cancelled = std::move(cancelled);
  ++soon_;
  queue_.push([this, call = std::move(call)] { answer(call); });
}

std::string LlmPort::waits_for() const {
  return soon_ > 0 ? "" : batches_.waits_for();
}

Result<void> LlmPort::open_stores() {
  if (!replies_) {
    auto opened = LlmReplies::open(options_.replies);
    if (!opened) return std::unexpected(opened.error());
    replies_ = std::move(*opened);
  }
  if (!cache_ && !options_.cache.empty()) {
    // Without the cache a run costs more and is none the worse.
    auto opened = LlmCache::open(options_.cache);
    if (opened) cache_ = std::move(*opened);
    options_.cache.clear();
  }
  return {};
}

Result<Prompt> LlmPort::read_prompt(const LlmRequest& request) {
  Prompt prompt;
  prompt.samples = request.samples;
  prompt.max_tokens = request.max_tokens;
  prompt.temperature = request.temperature;
  prompt.effort = request.effort;
  for (const LlmPart& part : request.parts) {
    auto text = blobs_.get(part.blob);
    if (!text) return std::unexpected(text.error());
    prompt.texts.push_back(
        {part.role, std::move(*text), part.cache_boundary, part.varies});
  }
  return prompt;
}

void LlmPort::refuse(const Call& call, Failure failure) {
  LlmReply reply;
  reply.effect = call.request.effect;
  reply.failure = std::move(failure);
  call.reply(reply);
  --soon_;
}

void LlmPort::answer(Call call) {
  if (closing_) return;
  auto endpoint = find_endpoint(options_.endpoints, call.request.provider);
  const auto prompt = read_prompt(call.request);
  const auto ready = open_stores();
  if (!ready) return refuse(call, to_failure(ready.error()));
  if (!prompt) return refuse(call, to_failure(prompt.error()));
  // Answered already, it needs no provider any more.
  if (endpoint) {
    call.endpoint = std::move(*endpoint);
    if (call.request.wall_ms > 0) {
      call.endpoint.provider.wall_ms =
          std::min(call.endpoint.provider.wall_ms, call.request.wall_ms);
    }
    call.prompt = prompt_key(call.endpoint, *prompt);
  }
  if (answer_from_disk(call)) return;
  if (!endpoint) return refuse(call, to_failure(endpoint.error()));
  if (call.cancelled.stop_requested()) {
    return refuse(call, {"cancelled", "the asker did not want it"});
  }
  if (!is_affordable(call, *prompt)) {
    return refuse(call, {"budget",
                         "the call could cost more than the limit of who "
                         "resumed the run"});
  }
  if (const auto noted = replies_->note_asked(call.id, call.prompt); !noted) {
    return refuse(call, to_failure(noted.error()));
  }
  // A run that was begun without batches gives a call less time.
  if (call.endpoint.batch && call.request.wall_ms >= kBatchWallMs) {
    return ask_in_batch(std::move(call), *prompt, "", 0);
  }
  ask(std::move(call), *prompt);
}

bool LlmPort::is_affordable(Call& call, const Prompt& prompt) {
  const LlmSpendingLimit& limit = options_.limit;
  if (limit.micro_usd < 0 && limit.tokens < 0) return true;
  const LlmProvider& provider = call.endpoint.provider;
  LlmUsage most;
  for (const PromptText& part : prompt.texts) {
    most.input += std::ssize(part.text);  // a token has a byte at least
  }
  const std::int64_t of_one =
      prompt.max_tokens > 0 ? prompt.max_tokens : provider.max_output_tokens;
  most.output = of_one * std::max(1, prompt.samples);
  const LlmPrices& prices = provider.prices;
  LlmPrices dearest = prices;
  dearest.input = std::max({prices.input, prices.cached, prices.cache_written});
  dearest.output = std::max(prices.output, prices.reasoning);
  call.micro_usd = cost_of(most, dearest);
  call.tokens = most.input + most.output;
  const bool fits =
      (limit.micro_usd < 0 ||
       spent_.micro_usd + call.micro_usd <= limit.micro_usd) &&
      (limit.tokens < 0 || spent_.tokens + call.tokens <= limit.tokens);
  if (!fits) return false;
  spent_.micro_usd += call.micro_usd;
  spent_.tokens += call.tokens;
  return true;
}

/// A call whose bill is not known counts in full.
void LlmPort::settle(const Call& call, const LlmReply& reply) {
  if (!reply.usage.known && reply.billed_maybe) return;
  const LlmUsage& usage = reply.usage;
  spent_.micro_usd += reply.micro_usd - call.micro_usd;
  spent_.tokens += usage.input + usage.cached + usage.cache_written +
                   usage.output + usage.reasoning - call.tokens;
}

bool LlmPort::answer_from_disk(Call& call) {
  const auto known = replies_->find(call.id);
  if (known && known->answer) {
    give(call, *known->answer);
    return true;
  }
  if (known && known->asked) {
    if (is_batch_id(known->batch) && !call.prompt.empty()) {
      ask_in_batch(call, {}, known->batch, known->batch_began_s);
    } else {
      give_up(call);
    }
    return true;
  }
  if (!cache_ || call.prompt.empty()) return false;
  // Several samples of one prompt are several answers: the first of this run
  // gets the first that is kept, the next the next.
  const auto ordinal = replies_->answered(call.prompt);
  if (!ordinal) return false;
  auto found = cache_->find(call.prompt, *ordinal);
  if (!found || !*found) return false;
  LlmReply& reply = (*found)->reply;
  reply.effect = call.request.effect;
  reply.from_cache = true;
  reply.usage = LlmUsage{.known = true};
  reply.micro_usd = 0;
  reply.limits = {};
  reply.latency_ms = reply.first_token_ms = 0;
  if (!replies_->note_asked(call.id, call.prompt)) return false;
  if (!replies_->keep(call.id, **found)) return false;
  give(call, std::move(**found));
  return true;
}

/// The process that made the call died before its answer came, which may be
/// billed all the same. Who asked settles it at what was reserved for it, and
/// asks anew under a reservation of its own: nothing is counted that the budget
/// was not asked for.
void LlmPort::give_up(const Call& call) {
  StoredAnswer stored_answer;
  stored_answer.reply.failure = {
      "node_lost",
      "weft ended while the call was under way: it counts "
      "as billed in full"};
  stored_answer.reply.billed_maybe = true;
  (void)replies_->keep(call.id, stored_answer);
  give(call, std::move(stored_answer));
}

void LlmPort::ask(Call call, const Prompt& prompt) {
  const auto watch = std::make_shared<Watch>();
  const LlmEndpoint endpoint = call.endpoint;
  const std::stop_token cancelled = call.cancelled;
  const LlmClient::Id id =
      client_.ask(endpoint, prompt, taker(std::move(call), watch));
  if (id != 0) watch->emplace(cancelled, [this, id] { client_.cancel(id); });
}

void LlmPort::ask_in_batch(Call call, const Prompt& prompt,
                           const std::string& batch, std::int64_t began_s) {
  const auto watch = std::make_shared<Watch>();
  const LlmEndpoint endpoint = call.endpoint;
  const std::stop_token cancelled = call.cancelled;
  const std::string id = call.id;
  LlmClient::OnAnswer on_answer =
      [this, take = taker(std::move(call), watch)](LlmAnswer answer) {
        ++soon_;
        take(std::move(answer));
      };
  if (batch.empty()) {
    batches_.add(endpoint, {id, prompt}, std::move(on_answer));
  } else {
    batches_.follow(endpoint, batch, began_s, id, std::move(on_answer));
  }
  --soon_;  // the batches have it now
  watch->emplace(cancelled, [this, id] { batches_.cancel(id); });
}

LlmClient::OnAnswer LlmPort::taker(Call call, std::shared_ptr<Watch> watch) {
  return [this, watch = std::move(watch),
          call = std::move(call)](LlmAnswer answer) {
    if (closing_) return;
    queue_.push([this, watch, call, answer = std::move(answer)] {
      watch->reset();
      take(call, answer);
    });
  };
}

void LlmPort::take(const Call& call, LlmAnswer answer) {
  StoredAnswer stored_answer;
  stored_answer.reply = reply_of(call.request, call.endpoint, answer);
  settle(call, stored_answer.reply);
  for (AnswerText& text : answer.texts) {
    stored_answer.reply.choices.push_back({"", text.finish_reason});
    stored_answer.texts.push_back(std::move(text.text));
  }
  // What never left can be tried again by who resumes the run. A disk that is
  // full does not make a paid answer worse: the journal's own error will end
  // the run.
  const bool sent = answer.http_status != 0 || answer.billed_maybe;
  (void)(sent ? replies_->keep(call.id, stored_answer)
              : replies_->forget_asked(call.id));
  const bool good =
      !stored_answer.reply.failure && !stored_answer.texts.empty();
  if (good && cache_) (void)cache_->add(call.prompt, stored_answer);
  give(call, std::move(stored_answer));
}

void LlmPort::give(const Call& call, StoredAnswer stored_answer) {
  for (std::size_t i = 0; i < stored_answer.texts.size(); ++i) {
    if (i >= stored_answer.reply.choices.size()) break;
    stored_answer.reply.choices[i].text = blobs_.put(stored_answer.texts[i]);
  }
  stored_answer.reply.effect = call.request.effect;
  call.reply(stored_answer.reply);
  --soon_;
}

}  // namespace weft
