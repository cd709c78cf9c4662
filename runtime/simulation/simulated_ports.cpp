#include "runtime/simulation/simulated_ports.hpp"

#include <algorithm>

#include "compiler/graph/graph.hpp"
#include "runtime/host/port.hpp"

namespace weft {
namespace {

const TensorType rows = {DType::f32, {8, 16}, {16, 1}};

Node made(NodeKind kind, std::string name, std::string target) {
  Node node;
  node.kind = kind;
  node.name = std::move(name);
  node.target = std::move(target);
  node.values = {rows};
  return node;
}

Arg node_ref(const std::string& name) { return Arg{NodeRef{name}}; }

Times made_up_times(Random& random) {
  const double median = 100 + static_cast<double>(pick(random, 900));
  return {median, median * 0.9, median * 1.1, 10};
}

Verdict made_up_verdict(Random& random) {
  static const char* const kinds[] = {"wrong", "crashed", "timed_out",
                                      "cheated", "out_of_memory"};
  Verdict verdict;
  verdict.cases = 5;
  verdict.tolerance = 1e-5;
  verdict.max_error = 1e-6;
  verdict.correct = !happens(random, 250);
  verdict.kind = verdict.correct ? "correct" : kinds[pick(random, 5)];
  if (!verdict.correct) verdict.reason = "made up";
  return verdict;
}

NearEager made_up_nearness(const CheckRequest& request, Random& random) {
  if (std::ranges::find(request.rules, rule::near_eager) ==
      request.rules.end()) {
    return {};
  }
  NearEager found;
  found.draws = 5;
  found.outcome = happens(random, 500) ? near_outcome::near : near_outcome::far;
  if (request.with_compile) {
    found.compiled = happens(random, 800) ? near_outcome::near : "failed";
  }
  return found;
}

Timing made_up_timing(Random& random, bool with_compile) {
  Timing timing;
  timing.candidate = made_up_times(random);
  timing.eager = made_up_times(random);
  const double ratio = timing.eager.median_us / timing.candidate.median_us;
  timing.over_eager = {ratio, 0.95 * ratio, 1.05 * ratio};
  if (with_compile) timing.compile = made_up_times(random);
  timing.outputs_checked = 3;
  timing.bytes_floor = 1024;
  return timing;
}

KnownKernel made_up_kernel(Blobs& blobs, Random& random) {
  KnownKernel kernel;
  if (happens(random, 400)) return kernel;
  kernel.source = blobs.put("a kernel of an earlier run");
  kernel.target = "cpu";
  kernel.variant = "made up";
  kernel.origin = "compiler";
  kernel.candidate = made_up_times(random);
  kernel.over_eager = {2, 1.9, 2.1};
  return kernel;
}

/// A kernel that may be none, tokens that may not be told.
LlmReply made_up_reply(const LlmRequest& request, Blobs& blobs,
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
  if (happens(random, 900)) {
    reply.usage = {.input = 1 + pick(random, 4'000),
                   .cached = pick(random, 4'000),
                   .output = 1 + pick(random, 2'000),
                   .known = true};
    reply.micro_usd = 1 + pick(random, 20'000);
  }
  return reply;
}

struct Answer {
  Blobs& blobs;
  Random& random;

  Message operator()(const CaptureRequest& m) {
    return CaptureReply{m.effect, {}, blobs.put(simulated_graph(random)), 5};
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
    CheckReply reply{m.effect, {}, made_up_verdict(random), 40};
    reply.verdict.near_eager = made_up_nearness(m, random);
    return reply;
  }
  Message operator()(const TimeRequest& m) {
    TimeReply reply;
    reply.effect = m.effect;
    reply.timing = made_up_timing(random, m.with_compile);
    if (happens(random, 30)) reply.rejected = "made up";
    return reply;
  }
  Message operator()(const ProbeRequest& m) {
    return ProbeReply{m.effect, {}, "2.13.0", 10.0, 2, {}};
  }
  Message operator()(const FindKernelRequest& m) {
    return FindKernelReply{m.effect, {}, made_up_kernel(blobs, random)};
  }
  Message operator()(const KeepKernelRequest& m) {
    return KeepKernelReply{m.effect, {}};
  }
  Message operator()(const LlmRequest& m) {
    return made_up_reply(m, blobs, random);
  }
  Message operator()(const TimerRequest& m) { return TimerFired{m.effect}; }

  template <class Other>
  Message operator()(const Other& other) {
    return other;
  }
};

}  // namespace

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
  graph.nodes.push_back(made(NodeKind::input, "x", "x"));
  Node weight = made(NodeKind::parameter, "weight", "weight");
  weight.values = {TensorType{DType::f32, {16, 16}, {16, 1}}};
  graph.nodes.push_back(weight);
  std::string last = "x";
  const auto stages = 1 + pick(random, 5);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const auto depth = pick(random, 4);
    for (std::int64_t i = 0; i < depth; ++i) {
      Node node = made(NodeKind::call,
                       "op" + std::to_string(stage) + "_" + std::to_string(i),
                       operators[pick(random, 3)]);
      node.args.push_back(node_ref(last));
      last = node.name;
      graph.nodes.push_back(std::move(node));
    }
    Node product =
        made(NodeKind::call, "mm" + std::to_string(stage), "aten.mm.default");
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
  static const char* const codes[] = {"failed",  "failed",      "failed",
                                      "missing", "wrong_input", "overloaded"};
  return failed_reply(request, {codes[pick(random, 6)], "made up",
                                pick(random, 2) * pick(random, 60'000)});
}

}  // namespace weft
