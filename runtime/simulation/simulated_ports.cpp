#include "runtime/simulation/simulated_ports.hpp"

#include <algorithm>

#include "compiler/graph/graph.hpp"
#include "runtime/host/port.hpp"

namespace weft {
namespace {

const TensorType rows = {DType::f32, {8, 16}, {16, 1}};

Node node_of_kind(NodeKind kind, std::string name, std::string target) {
  Node node;
  node.kind = kind;
  node.name = std::move(name);
  node.target = std::move(target);
  node.values = {rows};
  return node;
}

Arg node_ref(const std::string& name) { return Arg{NodeRef{name}}; }

Times simulated_times(Random& random) {
  const double median = 100 + static_cast<double>(pick(random, 900));
  return {median, median * 0.9, median * 1.1, 10};
}

Verdict simulated_verdict(Random& random) {
  static const char* const kinds[] = {"wrong", "crashed", "timed_out",
                                      "cheated", "out_of_memory"};
  Verdict verdict;
  verdict.cases = 5;
  verdict.tolerance = 1e-5;
  verdict.max_error = 1e-6;
  verdict.correct = !happens(random, 250);
  verdict.kind = verdict.correct ? "correct" : kinds[pick(random, 5)];
  if (!verdict.correct) verdict.reason = "made up";
  if (verdict.kind == "wrong") {
    verdict.mismatches = {{"y", {3, 4}, "5", "2", "0.6"}};
  }
  return verdict;
}

KernelBenchVerdict simulated_kernelbench(const CheckRequest& request,
                                         Random& random) {
  if (std::ranges::find(request.rules, rule::kernelbench) ==
      request.rules.end()) {
    return {};
  }
  KernelBenchVerdict found;
  found.draws = 5;
  found.outcome = happens(random, 500) ? kernelbench_outcome::within
                                       : kernelbench_outcome::outside;
  if (request.with_compile) {
    found.compiled =
        happens(random, 800) ? kernelbench_outcome::within : "failed";
  }
  return found;
}

Timing simulated_timing(Random& random, bool with_compile) {
  Timing timing;
  timing.candidate = simulated_times(random);
  timing.eager = simulated_times(random);
  const double ratio = timing.eager.median_us / timing.candidate.median_us;
  timing.over_eager = {ratio, 0.95 * ratio, 1.05 * ratio};
  if (with_compile) timing.compile = simulated_times(random);
  timing.outputs_checked = 3;
  timing.bytes_floor = 1024;
  timing.built = {{"made_up", {{"registers", 32}, {"local_bytes", 8}}}};
  return timing;
}

KnownKernel simulated_kernel(Blobs& blobs, Random& random) {
  KnownKernel kernel;
  if (happens(random, 400)) return kernel;
  kernel.source = blobs.put("a kernel of an earlier run");
  kernel.target = "cpu";
  kernel.variant = "made up";
  kernel.origin = "compiler";
  kernel.candidate = simulated_times(random);
  kernel.over_eager = {2, 1.9, 2.1};
  return kernel;
}

std::vector<WinningPattern> simulated_patterns(const PatternQuery& query,
                                               Blobs& blobs, Random& random) {
  std::vector<WinningPattern> patterns;
  for (int i = 0; i < query.count_max && happens(random, 500); ++i) {
    WinningPattern& pattern = patterns.emplace_back();
    pattern.type = "made up";
    pattern.platform = query.platform;
    pattern.features = query.features;
    pattern.change = blobs.put("+ a line of an earlier run\n");
    pattern.over_eager = 2;
    pattern.gain = 1.5;
  }
  return patterns;
}

/// A kernel that may be none, tokens that may not be told.
LlmReply simulated_reply(const LlmRequest& request, Blobs& blobs,
                         Random& random) {
  LlmReply reply;
  reply.effect = request.effect;
  reply.model = "made-up";
  reply.http_status = 200;
  reply.latency_ms = 500 + pick(random, 20'000);
  for (int i = 0; i < request.samples; ++i) {
    const std::string number = std::to_string(pick(random, 1'000'000));
    const bool is_kernel = !happens(random, 100);
    reply.choices.push_back(
        {blobs.put(is_kernel ? "```python\ndef kernel_function(*inputs):\n    "
                               "return inputs[0]  # " +
                                   number + "\n```\n"
                             : "I cannot do that. " + number),
         happens(random, 50) ? "length" : "stop"});
  }
  // Some servers tell no usage; none tells more than can be.
  if (happens(random, 900)) {
    std::int64_t bytes = 0;
    for (const LlmPart& part : request.parts) {
      bytes += static_cast<std::int64_t>(blobs.get(part.blob)->size());
    }
    reply.usage = {.input = pick(random, bytes / 2 + 1),
                   .cached = pick(random, bytes / 2 + 1),
                   .output = 1 + pick(random, request.max_tokens),
                   .known = true};
    // A dollar for a million tokens: the cheapest that there is here.
    const LlmUsage& usage = reply.usage;
    reply.micro_usd = usage.input + usage.cached + usage.output;
  }
  if (happens(random, 300)) {
    reply.limits.requests_limit = 5 + pick(random, 100);
    reply.limits.requests_remaining = pick(random, 5);
    reply.limits.requests_reset_ms = 1 + pick(random, 30'000);
  }
  return reply;
}

struct Answer {
  Blobs& blobs;
  Random& random;

  Message operator()(const CaptureRequest& m) {
    CaptureReply reply{m.effect, {}, blobs.put(simulated_graph(random)), 5};
    for (std::size_t i = 0; i < m.others.size(); ++i) {
      reply.others.push_back(blobs.put(simulated_graph(random)));
    }
    return reply;
  }
  Message operator()(const WriteFilesRequest& m) {
    return WriteFilesReply{m.effect, {}};
  }
  Message operator()(const BuildRequest& m) {
    BuildReply reply{m.effect, {}, "", 300};
    if (happens(random, 50)) reply.failure = {"wrong_input", "made up"};
    return reply;
  }
  Message operator()(const CheckRequest& m) {
    CheckReply reply{m.effect, {}, simulated_verdict(random), 40};
    reply.verdict.kernelbench = simulated_kernelbench(m, random);
    return reply;
  }
  Message operator()(const TimeRequest& m) {
    TimeReply reply;
    reply.effect = m.effect;
    reply.timing = simulated_timing(random, m.with_compile);
    if (happens(random, 30)) reply.rejected = "made up";
    return reply;
  }
  Message operator()(const ProbeRequest& m) {
    return ProbeReply{m.effect, {}, "2.13.0", 10.0, 2, {}};
  }
  Message operator()(const FindKernelRequest& m) {
    return FindKernelReply{m.effect,
                           {},
                           simulated_kernel(blobs, random),
                           simulated_patterns(m.similar, blobs, random)};
  }
  Message operator()(const KeepKernelRequest& m) {
    return KeepKernelReply{m.effect, {}};
  }
  Message operator()(const LlmRequest& m) {
    return simulated_reply(m, blobs, random);
  }
  Message operator()(const TimerRequest& m) { return TimerFired{m.effect}; }

  template <class Other>
  Message operator()(const Other& other) {
    return other;
  }
};

}  // namespace

LlmOptions simulated_models(Random& random) {
  LlmOptions options;
  options.name = "m0";
  const auto count = 1 + pick(random, 3);
  for (std::int64_t i = 0; i < count; ++i) {
    LlmProvider llm_provider;
    llm_provider.name = "m" + std::to_string(i);
    llm_provider.model = "made-up";
    llm_provider.max_output_tokens = 500 + pick(random, 4'000);
    llm_provider.limits.calls_at_once = static_cast<int>(1 + pick(random, 5));
    llm_provider.limits.requests_per_minute =
        pick(random, 2) * (1 + pick(random, 20));
    // Room for some calls, or for fewer than one.
    llm_provider.limits.tokens_per_minute =
        pick(random, 2) * (5'000 + pick(random, 60'000));
    llm_provider.limits.grace_ms = 1'500;
    llm_provider.prices.input = 1'000'000 * (1 + pick(random, 5));
    llm_provider.prices.output = 1'000'000 * (1 + pick(random, 20));
    llm_provider.native_samples = happens(random, 500);
    llm_provider.wall_ms = 60'000 + pick(random, 540'000);
    options.providers.push_back(llm_provider);
  }
  options.rounds = static_cast<int>(pick(random, 4));
  options.samples = static_cast<int>(1 + pick(random, 3));
  options.search = happens(random, 500) ? "greedy" : "beam:3";
  if (happens(random, 300)) options.budget_tokens = pick(random, 200'000);
  if (happens(random, 300)) options.budget_micro_usd = pick(random, 500'000);
  if (happens(random, 200)) options.subgraph_tokens = pick(random, 60'000);
  if (happens(random, 200)) options.subgraph_micro_usd = pick(random, 300'000);
  return options;
}

LlmReply simulated_llm_failure(const LlmRequest& request, Random& random) {
  struct Kind {
    const char* code;
    int status;
    bool billed_maybe;
  };
  // 429, 529, 503, a timeout before and after the request had left, a stream
  // that was cut, no connection; and for good: no money, a wrong request, no
  // key, a redirect.
  static constexpr Kind kinds[] = {
      {"rate_limited", 429, false}, {"rate_limited", 429, false},
      {"overloaded", 529, false},   {"overloaded", 503, false},
      {"overloaded", 504, true},    {"overloaded", 0, true},
      {"failed", 200, true},        {"failed", 0, false},
      {"quota", 402, false},        {"wrong_input", 400, false},
      {"missing", 0, false},        {"wrong_input", 302, false}};
  // Those for good are rarer.
  const auto which = pick(random, happens(random, 150) ? 12 : 8);
  const Kind& kind = kinds[which];
  LlmReply reply;
  reply.effect = request.effect;
  reply.failure = {kind.code, "made up", 0};
  reply.http_status = kind.status;
  reply.billed_maybe = kind.billed_maybe;
  if (kind.status == 429 || kind.status == 529) {
    // Sometimes longer than anybody waits.
    reply.failure.retry_after_ms = pick(random, 2) * pick(random, 150'000);
  }
  return reply;
}

bool happens(Random& random, int out_of_1000) {
  return pick(random, 1000) < out_of_1000;
}

std::int64_t pick(Random& random, std::int64_t below) {
  return static_cast<std::int64_t>(random() %
                                   static_cast<std::uint64_t>(below));
}

std::string simulated_graph(Random& random) {
  static const char* const operators[] = {
      "aten.relu.default", "aten.tanh.default", "aten.exp.default"};
  Graph graph;
  graph.nodes.push_back(node_of_kind(NodeKind::input, "x", "x"));
  Node weight = node_of_kind(NodeKind::parameter, "weight", "weight");
  weight.values = {TensorType{DType::f32, {16, 16}, {16, 1}}};
  graph.nodes.push_back(weight);
  std::string last = "x";
  const auto stages = 1 + pick(random, 5);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const auto depth = pick(random, 4);
    for (std::int64_t i = 0; i < depth; ++i) {
      Node node =
          node_of_kind(NodeKind::call,
                       "op" + std::to_string(stage) + "_" + std::to_string(i),
                       operators[pick(random, 3)]);
      node.args.push_back(node_ref(last));
      last = node.name;
      graph.nodes.push_back(std::move(node));
    }
    Node product = node_of_kind(NodeKind::call, "mm" + std::to_string(stage),
                                "aten.mm.default");
    product.args.push_back(node_ref(last));
    product.args.push_back(node_ref("weight"));
    last = product.name;
    graph.nodes.push_back(std::move(product));
  }
  graph.outputs = {last};
  return graph_to_json(graph);
}

Message simulated_answer(const Message& request, Blobs& blobs, Random& random) {
  return std::visit(Answer{blobs, random}, request);
}

Message simulated_failure(const Message& request, Random& random) {
  static const char* const codes[] = {"failed",   "failed",      "failed",
                                      "missing",  "wrong_input", "overloaded",
                                      "disk_full"};
  return failed_reply(request, {codes[pick(random, 7)], "made up",
                                pick(random, 2) * pick(random, 60'000)});
}

}  // namespace weft
