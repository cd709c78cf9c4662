#include "actors/llm/seeds.hpp"

#include "actors/llm/history.hpp"
#include "actors/llm/prompt.hpp"
#include "actors/llm/text.hpp"
#include "compiler/python/target.hpp"

namespace weft {

void LlmSeeds::receive(const Address& from, const Message& message,
                       Context& context) {
  if (const auto* first = std::get_if<SeedsRequest>(&message)) {
    RefineRequest request;
    request.subgraph = first->work.subgraph;
    request.work = first->work;
    ask(from, request, context);
  } else if (const auto* request = std::get_if<RefineRequest>(&message)) {
    ask(from, *request, context);
  } else if (const auto* stopped = std::get_if<StopSeed>(&message)) {
    stop(from, stopped->reason, context);
  } else if (const auto end = calls_.receive(message, context)) {
    answered(*end, context);
  }
}

void LlmSeeds::ask(const Address& by, const RefineRequest& request,
                   Context& context) {
  const LlmOptions& options = request.work.options.llm;
  SeedsReply reply;
  reply.subgraph = request.work.subgraph;
  reply.origin = kLlmSource;
  reply.round = request.round;
  if (options.providers.empty()) {
    reply.failure = {"wrong_input",
                     "no language model is named: say which with --llm NAME"};
    return context.send(by, reply);
  }
  auto prompt = seed_prompt(request, context.blobs());
  if (!prompt) {
    reply.failure = to_failure(prompt.error());
    return context.send(by, reply);
  }
  LlmCall call;
  call.group = request.work.subgraph;
  // Who is nearer to an end goes first.
  call.priority = request.round > 0 ? 1 : 0;
  call.purpose =
      (request.seed.id.empty() ? std::string("seeds for ")
                               : "refine " + request.seed.id + " of ") +
      request.work.subgraph;
  call.parts = std::move(prompt->parts);
  // With nothing to refine, first kernels are asked for again.
  call.samples = request.seed.id.empty() ? options.samples : 1;
  const auto id = calls_.start(options, std::move(call), context);
  asked_[id] = {by, request.work.subgraph, request.seed.id, prompt->method,
                request.round};
}

void LlmSeeds::stop(const Address& by, const std::string& why,
                    Context& context) {
  for (auto next = asked_.begin(); next != asked_.end();) {
    const auto current = next++;
    if (current->second.by != by) continue;
    calls_.cancel(current->first, why, context);
    asked_.erase(current);
  }
}

void LlmSeeds::answered(const LlmEnd& end, Context& context) {
  const auto node = asked_.extract(end.id);
  if (node.empty()) return;
  const Asked& asked = node.mapped();
  SeedsReply reply;
  reply.subgraph = asked.subgraph;
  reply.origin = kLlmSource;
  reply.round = asked.round;
  reply.failure = end.failure;
  reply.spent = end.spent;
  std::string error_text;
  for (const LlmChoice& choice : end.choices) {
    const auto text = context.blobs().get(choice.text);
    auto file = text ? python_file_in(*text)
                     : Result<std::string>(std::unexpected(text.error()));
    if (!file) {
      error_text = file.error().message;
      if (choice.finish_reason == "refusal") error_text = "the model refused";
      if (choice.finish_reason == "length") {
        error_text += " (its answer was cut off: raise max_output_tokens)";
      }
      continue;
    }
    if (!seen_[asked.subgraph].insert(near_duplicate_key(*file)).second) {
      error_text = "the same kernel was proposed before";
      continue;
    }
    const int number = count_[asked.subgraph]++;
    Seed seed;
    seed.id = std::string(kLlmSource) + "-" + std::to_string(number);
    seed.target = kPythonTarget;
    seed.origin = kLlmSource;
    seed.variant = asked.round == 0 ? "first proposal"
                                    : "round " + std::to_string(asked.round) +
                                          " of " + asked.parent;
    seed.source = context.blobs().put(*file);
    seed.parent = asked.parent;
    seed.round = asked.round;
    seed.method = asked.method;
    KernelNotes notes = notes_of(*file);
    seed.idea = std::move(notes.idea);
    seed.review = std::move(notes.review);
    reply.seeds.push_back(std::move(seed));
  }
  if (reply.seeds.empty() && !reply.failure) {
    reply.failure = {"no_kernel",
                     error_text.empty() ? "an empty answer" : error_text};
  }
  context.send(asked.by, reply);
}

}  // namespace weft
