#include "runtime/ports/capture_port.hpp"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>

#include "messages/parse_json.hpp"
#include "messages/untrusted.hpp"
#include "runtime/machine/either_stop.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/machine/stopwatch.hpp"
#include "runtime/machine/toolchain.hpp"
#include "runtime/ports/cancellable_work.hpp"
#include "runtime/sandbox/gpu_sandbox.hpp"
#include "runtime/store/sha256.hpp"
#include "runtime/store/untrusted_files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A graph of a hundred thousand nodes has about 100 MB.
constexpr std::int64_t kGraphBytesMax = std::int64_t{1} << 30;

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

/// The last of what it wrote, from the beginning of a line.
std::string end_of(const std::string& text) {
  constexpr std::size_t most = 1000;
  const std::size_t from = text.size() > most ? text.size() - most : 0;
  const std::size_t line = from == 0 ? 0 : text.find('\n', from);
  const std::string rest = text.substr(line == std::string::npos ? from : line);
  return rest.find_first_not_of(" \n") == std::string::npos
             ? ""
             : "; the last that it wrote: " + rest;
}

/// What ended without an answer.
Failure did_not_end(const CaptureRequest& request,
                    const SandboxReport& report) {
  const std::string who = request.problem_name;
  const Failure took_too_long = {
      "wrong_input",
      who + " did not return within " + std::to_string(request.wall_ms / 1000) +
          " s of loading, building and calling its model: look for an endless "
          "loop, or raise --capture-seconds"};
  const std::string rest =
      " while it was loaded, built or called" + end_of(report.err);
  switch (report.end) {
    case SandboxReport::End::timed_out:
      return took_too_long;
    case SandboxReport::End::out_of_memory:
      return {"wrong_input",
              who +
                  " needs more memory than the capture may use: make "
                  "its sizes smaller, or raise --memory-gib"};
    case SandboxReport::End::signalled:
      if (report.code == SIGALRM) return took_too_long;
      if (report.err.contains("Fatal Python error")) {
        return {"wrong_input", fault_text(report.err, who)};
      }
      return {"failed", "the process of " + who + " was ended by signal " +
                            std::to_string(report.code) + rest};
    case SandboxReport::End::exited:
      break;
  }
  return {"wrong_input", who + " ended its own process with exit code " +
                             std::to_string(report.code) +
                             ", by os._exit() or in a library of its," + rest};
}

/// A capture's line of JSON, as a failure.
Failure told_failure(const json& answer) {
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
  return {code == "wrong_input" || code == "missing" ? code : "failed",
          message};
}

fs::path graph_path_of(const fs::path& problem) {
  return problem.parent_path() / "graph.json";
}

}  // namespace

CapturePort::CapturePort(Blobs& blobs, Installation installation,
                         fs::path scratch, Limits limits,
                         const Library& library, std::string device,
                         std::string device_name)
    : blobs_(blobs),
      installation_(std::move(installation)),
      scratch_(std::move(scratch)),
      limits_(limits),
      library_(library),
      device_(std::move(device)),
      device_name_(std::move(device_name)) {}

void CapturePort::start(const Message& request, Reply reply) {
  begin(request, {}, std::move(reply));
}

void CapturePort::begin(const Message& request, std::stop_token cancelled,
                        Reply reply) {
  auto held = std::get<CaptureRequest>(request);
  held.wall_ms = std::min(held.wall_ms, limits_.wall_ms);
  push_cancellable(queue_, request, cancelled, std::move(reply),
                   [this, held = std::move(held), cancelled] {
                     return Message(capture(held, cancelled));
                   });
}

CaptureReply CapturePort::capture(const CaptureRequest& request,
                                  const std::stop_token& cancelled) {
  const Stopwatch watch;
  CaptureReply reply{request.effect, {}, "", 0};
  auto wanted = look_up(request);
  if (!wanted) {
    reply.failure = to_failure(wanted.error());
    return reply;
  }
  const auto is_known = [](const Wanted& item) {
    return item.graph.has_value();
  };
  reply.from_library = std::ranges::all_of(*wanted, is_known);
  if (!reply.from_library) {
    reply.failure = capture_unknown(request, *wanted, cancelled);
  }
  std::vector<std::string> graphs;
  for (const Wanted& entry : *wanted) {
    if (!entry.graph) break;
    graphs.push_back(blobs_.put(*entry.graph));
  }
  if (!graphs.empty()) {
    reply.graph = graphs.front();
    reply.others.assign(graphs.begin() + 1, graphs.end());
  }
  reply.wall_ms = watch.elapsed_ms();
  return reply;
}

Result<std::vector<CapturePort::Wanted>> CapturePort::look_up(
    const CaptureRequest& request) {
  std::vector<std::string> problems{request.problem};
  problems.insert(problems.end(), request.others.begin(), request.others.end());
  std::vector<Wanted> wanted;
  for (const std::string& blob : problems) {
    const auto problem = blobs_.get(blob);
    if (!problem) return std::unexpected(problem.error());
    Wanted& current =
        wanted.emplace_back(*problem, artefact_key(request, *problem));
    if (!library_.is_there()) continue;
    if (auto known = library_.find_artefact(current.key))
      current.graph = std::move(*known);
  }
  return wanted;
}

Failure CapturePort::capture_unknown(const CaptureRequest& request,
                                     std::vector<Wanted>& wanted,
                                     const std::stop_token& cancelled) {
  std::vector<Wanted*> unknown;
  for (Wanted& entry : wanted) {
    if (!entry.graph) unknown.push_back(&entry);
  }
  const fs::path scratch = scratch_ / ("capture-" + std::to_string(next_++));
  Failure failure = run(request, unknown, scratch, cancelled);
  (void)remove_tree(scratch);
  for (const Wanted* entry : unknown) {
    if (!entry->may_be_stored || !library_.is_there()) continue;
    // Else it is captured again: no reason to stop.
    [[maybe_unused]] const auto stored =
        library_.store_artefact(entry->key, *entry->graph);
  }
  return failure;
}

/// All that a graph comes from that may be kept.
std::string CapturePort::artefact_key(const CaptureRequest& request,
                                      const std::string& problem) const {
  return "graph " + content_hash(problem) + " of " + request.problem_name +
         (request.mode == "as-is" ? "" : " in mode " + request.mode) + " on " +
         device_ + " " + device_name_ + " by " + python_identity(installation_);
}

Failure CapturePort::run(const CaptureRequest& request,
                         const std::vector<Wanted*>& unknown,
                         const fs::path& scratch,
                         const std::stop_token& cancelled) {
  const auto named = check_file_name(request.problem_name);
  if (!named) return to_failure(named.error());
  std::vector<fs::path> files;
  for (const Wanted* wanted : unknown) {
    files.push_back(scratch / std::to_string(files.size()) /
                    request.problem_name);
    const auto done = write_file_whole(files.back(), wanted->problem);
    if (!done) return to_failure(done.error());
  }
  const auto report = run_process(request, files, scratch, cancelled);
  if (!report) return to_failure(report.error());
  std::istringstream lines(report->out);
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::string line;
    std::getline(lines, line);
    const json answer = parse_json(line);
    if (!answer.is_object()) return did_not_end(request, *report);
    if (!answer.value("ok", false)) return told_failure(answer);
    // The problem's code ran where it could write this.
    auto graph = read_file_beneath(
        scratch, graph_path_of(files[i]).lexically_relative(scratch),
        kGraphBytesMax);
    if (!graph) return to_failure(graph.error());
    unknown[i]->graph = std::move(*graph);
    unknown[i]->may_be_stored = answer.value("keeps", false);
  }
  return {};
}

Result<SandboxReport> CapturePort::run_process(
    const CaptureRequest& request, const std::vector<fs::path>& files,
    const fs::path& scratch, const std::stop_token& cancelled) {
  const auto count = static_cast<std::int64_t>(files.size());
  SandboxRequest sandbox;
  sandbox.command = {installation_.python.string(),
                     "-P",
                     "-m",
                     "weft.capture.capture",
                     "--device",
                     device_,
                     "--mode",
                     request.mode,
                     "--seconds",
                     std::to_string(request.wall_ms / 1000)};
  for (const fs::path& file : files) {
    sandbox.command.insert(
        sandbox.command.end(),
        {"--problem", file.string(), "--out", graph_path_of(file).string()});
  }
  sandbox.scratch = scratch;
  sandbox.readable = python_readable(installation_);
  sandbox.environment = python_environment(installation_);
  sandbox.limits.wall_ms = request.wall_ms * count;
  sandbox.limits.cpu_s = sandbox.limits.wall_ms / 1000 * 64;
  sandbox.limits.memory_bytes = limits_.memory_bytes;
  const EitherStop stop(stop_.get_token(), cancelled);
  sandbox.stop = stop.token();
  // Inputs of gigabytes are made there in no time, and on the host in minutes.
  if (device_ != "cpu") {
    show_gpu(sandbox);
    show_gpu_locks(sandbox);
  }
  return run_sandboxed(sandbox);
}

}  // namespace weft
