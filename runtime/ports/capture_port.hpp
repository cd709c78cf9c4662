// port/capture: turns a problem file into a graph, by running the capture
// process on it in the sandbox, one process for all the sizes that are asked
// for. The same file captured by the same programs gives the same graph, so the
// library may have it.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/role.hpp"
#include "runtime/host/port.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/machine/work_queue.hpp"
#include "runtime/sandbox/sandbox.hpp"
#include "runtime/store/library.hpp"

namespace weft {

class CapturePort : public Port {
 public:
  /// Limits of one capture. A request can only lower them.
  struct Limits {
    std::int64_t memory_bytes = 0;
    std::int64_t wall_ms = 0;
  };
  CapturePort(Blobs& blobs, Installation installation,
              std::filesystem::path scratch, Limits limits,
              const Library& library, std::string device = "cpu",
              std::string device_name = "");

  ~CapturePort() override { stop_.request_stop(); }

  void start(const Message& request, Reply reply) override;
  void begin(const Message& request, std::stop_token cancelled,
             Reply reply) override;

 private:
  CaptureReply capture(const CaptureRequest& request,
                       const std::stop_token& cancelled);
  /// A problem's text, and its graph's JSON once that is known; if it was just
  /// captured, whether the same text would give it again: what the problem
  /// imports is asked of Python, which reads the file.
  struct Wanted {
    std::string problem;
    std::string key;
    std::optional<std::string> graph{};
    bool may_be_stored = false;
  };
  /// The problem at its own sizes, then at others, with what the library has.
  Result<std::vector<Wanted>> look_up(const CaptureRequest& request);
  /// Fills in what is not known, up to the first that fails; why that did.
  Failure capture_unknown(const CaptureRequest& request,
                          std::vector<Wanted>& wanted,
                          const std::stop_token& cancelled);
  std::string artefact_key(const CaptureRequest& request,
                           const std::string& problem) const;
  Failure run(const CaptureRequest& request,
              const std::vector<Wanted*>& unknown,
              const std::filesystem::path& scratch,
              const std::stop_token& cancelled);
  Result<SandboxReport> run_process(
      const CaptureRequest& request,
      const std::vector<std::filesystem::path>& files,
      const std::filesystem::path& scratch, const std::stop_token& cancelled);

  Blobs& blobs_;
  Installation installation_;
  std::filesystem::path scratch_;
  Limits limits_;
  const Library& library_;
  std::string device_;       // "cpu" or "cuda:0": where the model runs
  std::string device_name_;  // of the GPU
  std::stop_source stop_;
  int next_ = 0;  // capture's folder; the queue's thread alone counts
  WorkQueue queue_{1};
};

/// Those of a run with these options.
inline CapturePort::Limits capture_limits(const RunOptions& options) {
  return {options.memory_bytes, options.capture_ms};
}

}  // namespace weft
