#include "actors/test_writer.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "actors/llm/templates.hpp"
#include "actors/llm/text.hpp"
#include "actors/outcome.hpp"

namespace weft {
namespace {

/// An answer that holds no reference is asked for again so often in all.
constexpr int kAskedMax = 3;

Result<std::string> reference_in(const LlmChoice& choice, Blobs& blobs) {
  const auto text = blobs.get(choice.text);
  if (!text) return std::unexpected(text.error());
  auto file = python_file_in(*text, "Model");
  if (!file) return file;
  for (const char* needed : {"get_inputs", "get_init_inputs"}) {
    if (!python_file_in(*file, needed)) {
      return fail(ErrorCode::wrong_input,
                  std::string("the file does not define ") + needed);
    }
  }
  return file;
}

std::string spent_json(const LlmSpent& spent) {
  const nlohmann::json fields = {{"calls", spent.calls},
                                 {"from_cache", spent.from_cache},
                                 {"tokens", spent.tokens},
                                 {"micro_usd", spent.micro_usd}};
  return fields.dump() + "\n";
}

}  // namespace

void TestWriter::receive(const Address&, const Message& message,
                         Context& context) {
  if (over_) return;
  if (const auto* start = std::get_if<RunStart>(&message)) {
    if (!run_) begin(*start, context);
  } else if (const auto call = calls_.receive(message, context)) {
    answered(*call, context);
  } else if (const auto end = effects_.receive(message, context)) {
    if (end->failure) {
      return finish(exit_code_of(end->failure), end->failure.message, context);
    }
    finish(0, "the reference is written", context);
  }
}

void TestWriter::begin(const RunStart& start, Context& context) {
  run_ = start;
  context.send(address::broker,
               Capacities{{{"cpu", start.machine.cores}, {"disk", 1}}});
  context.send(address::broker, LlmAllowance{start.options.llm});
  ask("", context);
}

void TestWriter::ask(const std::string& fault, Context& context) {
  const LlmOptions& options = run_->options.llm;
  const auto description = context.blobs().get(run_->description);
  const auto text = template_text("describe", options, context.blobs());
  if (!description || !text) {
    const Error& error = description ? text.error() : description.error();
    return finish(1, error.message, context);
  }
  ++asked_;
  TemplateWords words = {{"description", *description}, {"fault", ""}};
  if (!fault.empty()) {
    words["fault"] = "Your last answer could not be used: " + fault + ".\n";
  }
  LlmCall call;
  call.purpose = "a reference by its description";
  call.samples = 2;
  call.parts = {{"user", context.blobs().put(filled(*text, words)), false}};
  calls_.start(options, std::move(call), context);
  context.send(address::user,
               Progress{"", "describe",
                        "asked " + options.name + " for a reference, twice"});
}

void TestWriter::answered(const LlmEnd& end, Context& context) {
  add_spent(spent_, end.spent);
  if (end.failure) {
    const int code = end.failure.code == "budget" ? kBudgetExitCode
                                                  : exit_code_of(end.failure);
    return finish(code, "no reference: " + end.failure.message, context);
  }
  std::vector<std::string> files;
  std::string fault = "there was only one answer";
  for (const LlmChoice& choice : end.choices) {
    auto file = reference_in(choice, context.blobs());
    if (file) {
      files.push_back(std::move(*file));
    } else {
      fault = file.error().message;
    }
  }
  if (files.size() >= 2) return write(files[0], files[1], context);
  context.send(address::user, Progress{"", "describe", fault});
  if (asked_ < kAskedMax) return ask(fault, context);
  finish(1, "no reference: " + fault, context);
}

void TestWriter::write(const std::string& problem, const std::string& second,
                       Context& context) {
  Blobs& blobs = context.blobs();
  WriteFilesRequest request;
  request.files = {{"problem.py", blobs.put(problem)},
                   {"second.py", blobs.put(second + "\n\nModelNew = Model\n")},
                   {"spent.json", blobs.put(spent_json(spent_))}};
  effects_.start(address::files, request, {"disk", 1, "", kDiskMs}, context);
}

void TestWriter::finish(int exit_code, const std::string& summary,
                        Context& context) {
  over_ = true;
  context.send(address::user, RunFinished{exit_code, summary});
}

}  // namespace weft
