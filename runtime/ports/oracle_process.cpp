#include "runtime/ports/oracle_process.hpp"

#include <initializer_list>

#include "messages/parse_json.hpp"
#include "runtime/sandbox/gpu_sandbox.hpp"

namespace weft {

using nlohmann::json;

/// On an H200 a check takes 0.1 to 2 s and a timing 1 to 2 s, and an oracle 8 s
/// until it has imported PyTorch, opened the device and built a large model.
constexpr std::int64_t kPatienceMs = 5'000;

namespace {

/// The sandbox of an oracle whose problem is not trusted. It holds PyTorch, the
/// model, and baselines with their compilers.
SandboxRequest oracle_box(const SandboxRequest& candidates,
                          const OracleOptions& options) {
  constexpr int kCopies = 4;
  constexpr int kProcessesMax = 4096;
  SandboxRequest box = candidates;
  box.scratch = options.scratch / "oracle";  // the warden makes it
  box.readable.push_back(options.problems);
  box.limits.memory_bytes *= kCopies;
  box.limits.processes = kProcessesMax;
  if (options.device != "cpu") {
    show_gpu(box);
    show_gpu_locks(box);
  }
  return box;
}

}  // namespace

LineCommand oracle_command(const Installation& installation,
                           const OracleOptions& options) {
  SandboxRequest sandbox;
  // The oracle makes both folders (judge/job_folders.py).
  sandbox.scratch = options.scratch / "work";
  sandbox.readable = python_readable(installation);
  sandbox.readable.push_back(options.scratch / "staged");
  sandbox.readable.insert(sandbox.readable.end(), options.readable.begin(),
                          options.readable.end());
  sandbox.environment = python_environment(installation);
  sandbox.environment.emplace_back("OMP_NUM_THREADS",
                                   std::to_string(options.threads));
  sandbox.environment.insert(sandbox.environment.end(),
                             options.environment.begin(),
                             options.environment.end());
  // A zygote lives as long as its slot: only the call's own limits end a job.
  sandbox.limits.cpu_s = 1'000'000;
  sandbox.limits.memory_bytes = options.memory_bytes;
  sandbox.limits.processes = options.processes;
  LineCommand command;
  command.environment = sandbox.environment;
  // -P: no module may come from the working folder, whatever lies there.
  command.words = {installation.python.string(), "-P", "-m"};
  const auto say = [&command](std::initializer_list<std::string> words) {
    command.words.insert(command.words.end(), words);
  };
  if (options.untrusted_problem) {
    say({"weft.oracle.warden", "--oracle-sandbox",
         json(sandbox_prefix(oracle_box(sandbox, options))).dump()});
  } else {
    say({"weft.oracle.oracle"});
  }
  if (options.device != "cpu") show_gpu(sandbox);
  say({"--scratch", options.scratch.string(), "--sandbox",
       json(sandbox_prefix(sandbox)).dump(), "--device", options.device});
  if (options.untrusted_problem) say({"--"});
  say({"--threads", std::to_string(options.threads)});
  command.words.insert(command.words.end(), options.words.begin(),
                       options.words.end());
  command.log = options.log;
  return command;
}

OracleAnswer ask_oracle(LineProcess& oracle, json request, std::int64_t wall_ms,
                        const std::stop_token& unwanted) {
  const auto broken = [](const std::string& why) {
    return OracleAnswer(fail(ErrorCode::failed, why), false);
  };
  request["id"] = 1;
  const auto line = oracle.ask(request.dump(), wall_ms, unwanted, kPatienceMs);
  if (!line) return broken("the oracle: " + line.error().message);
  json reply = parse_json(*line);
  if (!reply.is_object()) {
    return broken("the oracle's answer is no JSON object");
  }
  if (reply.value("ok", false)) return OracleAnswer(std::move(reply), true);
  const json error = reply.value("error", json::object());
  const std::string code = error.value("code", "failed");
  const ErrorCode kind = code == "wrong_input" ? ErrorCode::wrong_input
                         : code == "missing"   ? ErrorCode::missing
                                               : ErrorCode::failed;
  return OracleAnswer(fail(kind, error.value("message", "the oracle failed")),
                      true);
}

}  // namespace weft
