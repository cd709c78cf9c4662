#include "runtime/ports/capture_port.hpp"

#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/machine/either_stop.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/machine/stopwatch.hpp"
#include "runtime/machine/toolchain.hpp"
#include "runtime/sandbox/gpu_sandbox.hpp"
#include "runtime/sandbox/sandbox.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What Python's faulthandler told of a fault: the innermost call of the
/// problem's own, and whether the stack was full.
std::string fault_text(const std::string& err, const std::string& problem) {
  const std::string frame = "/" + problem + "\", line ";
  const auto found = err.find(frame);
  std::string where = problem;
  if (found != std::string::npos) {
    const auto begin = found + frame.size();
    where += ":" + err.substr(begin, err.find(' ', begin) - begin);
  }
  if (err.contains("\n  ...\n")) {
    return where +
           ": its calls go deeper than the stack holds, as an endless "
           "recursion does";
  }
  return where + ": a fault in native code that it calls";
}

std::unexpected<Error> did_not_end(const CaptureRequest& request,
                                   const SandboxReport& report) {
  const std::string who = request.problem_name;
  switch (report.end) {
    case SandboxReport::End::timed_out:
      return fail(ErrorCode::wrong_input,
                  who + " did not return within " +
                      std::to_string(request.wall_ms / 1000) +
                      " s of loading, building and calling its model: look "
                      "for an endless loop, or raise --capture-seconds");
    case SandboxReport::End::out_of_memory:
      return fail(ErrorCode::wrong_input,
                  who +
                      " needs more memory than the capture may use: make "
                      "its sizes smaller, or raise --memory-gib");
    case SandboxReport::End::signalled:
      if (report.err.contains("Fatal Python error")) {
        return fail(ErrorCode::wrong_input, fault_text(report.err, who));
      }
      [[fallthrough]];
    default:
      return fail(ErrorCode::failed, "the capture of " + who +
                                         " ended without an answer: " +
                                         report.err.substr(0, 2000));
  }
}

/// The capture's one line of JSON, as an error.
Error told_error(const json& answer) {
  const json error = answer.value("error", json::object());
  const std::string code = error.value("code", "failed");
  std::string message = error.value("message", "the capture failed");
  if (error.value("kind", "") == "out_of_memory") {
    message += ", or raise --memory-gib";
  }
  const json named = error.value("file", json());
  const std::string file = named.is_string() ? named.get<std::string>() : "";
  const json line = error.value("line", json());
  const bool has_line = line.is_number_integer() && line > 0;
  if (!file.empty() && has_line && !message.contains("line " + line.dump())) {
    message = file + ":" + line.dump() + ": " + message;
  } else if (!file.empty() && !message.contains(file)) {
    message = file + ": " + message;
  }
  return {code == "wrong_input" ? ErrorCode::wrong_input
          : code == "missing"   ? ErrorCode::missing
                                : ErrorCode::failed,
          message};
}

}  // namespace

CapturePort::CapturePort(Blobs& blobs, Installation installation,
                         fs::path scratch, std::int64_t memory_bytes,
                         const Library& library, std::string device,
                         std::string device_name)
    : blobs_(blobs),
      installation_(std::move(installation)),
      scratch_(std::move(scratch)),
      memory_bytes_(memory_bytes),
      library_(library),
      device_(std::move(device)),
      device_name_(std::move(device_name)) {}

void CapturePort::start(const Message& request, Reply reply) {
  begin(request, {}, std::move(reply));
}

void CapturePort::begin(const Message& request, std::stop_token cancelled,
                        Reply reply) {
  queue_.push([this, request = std::get<CaptureRequest>(request), cancelled,
               reply = std::move(reply)] {
    if (cancelled.stop_requested()) return reply(cancelled_reply(request));
    CaptureReply captured = capture(request, cancelled);
    const bool is_stopped = captured.failure && cancelled.stop_requested();
    reply(is_stopped ? cancelled_reply(request) : Message(std::move(captured)));
  });
}

CaptureReply CapturePort::capture(const CaptureRequest& request,
                                  const std::stop_token& cancelled) {
  const Stopwatch watch;
  CaptureReply reply{request.effect, {}, "", 0};
  const auto problem = blobs_.get(request.problem);
  if (!problem) {
    reply.failure = to_failure(problem.error());
    return reply;
  }
  const std::string key = made_key(request, *problem);
  if (library_.is_there()) {
    const auto known = library_.find_made(key);
    if (known && *known) {
      reply.graph = blobs_.put(**known);
      reply.kept = true;
      reply.wall_ms = watch.elapsed_ms();
      return reply;
    }
  }
  const fs::path scratch = scratch_ / "capture";
  const auto captured = run(request, *problem, scratch, cancelled);
  if (captured) {
    reply.graph = blobs_.put(captured->graph);
    if (library_.is_there() && captured->may_be_kept) {
      // Else it is captured again: no reason to stop.
      [[maybe_unused]] const auto kept =
          library_.keep_made(key, captured->graph);
    }
  } else {
    reply.failure = to_failure(captured.error());
  }
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  reply.wall_ms = watch.elapsed_ms();
  return reply;
}

/// All that a graph comes from that may be kept.
std::string CapturePort::made_key(const CaptureRequest& request,
                                  const std::string& problem) const {
  return "graph " + content_hash(problem) + " of " + request.problem_name +
         (request.mode == "as-is" ? "" : " in mode " + request.mode) + " on " +
         device_ + " " + device_name_ + " by " + python_identity(installation_);
}

Result<CapturePort::Captured> CapturePort::run(
    const CaptureRequest& request, const std::string& problem,
    const fs::path& scratch, const std::stop_token& cancelled) {
  const fs::path file = scratch / request.problem_name;
  if (const auto done = write_file_whole(file, problem); !done) {
    return std::unexpected(done.error());
  }
  SandboxRequest sandbox;
  sandbox.command = {installation_.python.string(),
                     "-P",
                     "-m",
                     "weft.capture.capture",
                     "--problem",
                     file.string(),
                     "--out",
                     (scratch / "graph.json").string(),
                     "--device",
                     device_,
                     "--mode",
                     request.mode};
  sandbox.scratch = scratch;
  sandbox.readable = python_readable(installation_);
  sandbox.environment = python_environment(installation_);
  sandbox.limits.wall_ms = request.wall_ms;
  sandbox.limits.cpu_s = request.wall_ms / 1000 * 64;
  sandbox.limits.memory_bytes = memory_bytes_;
  const EitherStop stop(stop_.get_token(), cancelled);
  sandbox.stop = stop.token();
  // Inputs of gigabytes are made there in no time, and on the host in minutes.
  if (device_ != "cpu") {
    show_gpu(sandbox);
    show_gpu_locks(sandbox);
  }
  const auto report = run_sandboxed(sandbox);
  if (!report) return std::unexpected(report.error());
  const json answer = json::parse(report->out, nullptr, false);
  if (!answer.is_object()) return did_not_end(request, *report);
  if (!answer.value("ok", false)) return std::unexpected(told_error(answer));
  auto graph = read_file(scratch / "graph.json");
  if (!graph) return std::unexpected(graph.error());
  return Captured{std::move(*graph), answer.value("keeps", false)};
}

}  // namespace weft
