#include "runtime/ports/gpu_probe.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "messages/parse_json.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/ports/oracle_process.hpp"
#include "runtime/store/library.hpp"
#include "runtime/store/sha256.hpp"
#include "runtime/store/untrusted_files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kProbeWallMs = 120'000;
/// Raised where the probe tells more than before: what was kept lacks that.
constexpr int kProbe = 2;

Result<json> ask_probe(const Installation& installation, OracleOptions options,
                       const json& request) {
  std::string folder = fs::temp_directory_path() / "weft-gpu-XXXXXX";
  if (!mkdtemp(folder.data())) {
    return fail(ErrorCode::failed, "no folder for temporary files can be made");
  }
  options.scratch = folder;
  auto oracle = LineProcess::start(oracle_command(installation, options));
  Result<json> reply = oracle ? ask_oracle(*oracle, request, kProbeWallMs).reply
                              : std::unexpected(oracle.error());
  (void)remove_tree(folder);
  return reply;
}

/// Where a device's numbers are kept; empty: nowhere.
fs::path probe_file(const Installation& installation, const GpuList& gpus,
                    std::size_t number) {
  const fs::path folder = cache_folder();
  if (folder.empty() || number >= gpus.devices.size()) return {};
  return folder / ("gpu-" + gpus.devices[number].uuid + "-" +
                   gpus.driver_version + "-torch" + installation.torch_version +
                   "-probe" + std::to_string(kProbe) + ".json");
}

}  // namespace

std::map<std::string, double> gpu_numbers(const json& machine) {
  std::map<std::string, double> numbers;
  const json gpu = machine.value("gpu", json::object());
  for (const auto& [name, value] : gpu.items()) {
    const bool measured = name.ends_with("_gbps") ||
                          name.ends_with("_tflops") ||
                          name.starts_with("clusters_of_");
    if (measured && value.is_number()) numbers[name] = value.get<double>();
  }
  return numbers;
}

std::map<std::string, double> known_gpu(const Installation& installation,
                                        const GpuList& gpus,
                                        std::size_t number) {
  const fs::path file = probe_file(installation, gpus, number);
  if (file.empty()) return {};
  const auto text = read_file(file);
  const json known = parse_json(text.value_or(""));
  return known.is_object() ? gpu_numbers(known)
                           : std::map<std::string, double>();
}

void keep_gpu(const Installation& installation, const GpuList& gpus,
              std::size_t number, const json& machine) {
  const fs::path file = probe_file(installation, gpus, number);
  if (file.empty()) return;
  [[maybe_unused]] const auto written = write_file_whole(file, machine.dump());
}

Result<std::map<std::string, double>> measure_cpu(
    const Installation& installation, const std::string& processor, int cores) {
  const fs::path folder = cache_folder();
  const fs::path file =
      folder.empty()
          ? fs::path()
          : folder / ("cpu-" + content_hash(processor).substr(0, 16) + "-" +
                      std::to_string(cores) + "-torch" +
                      installation.torch_version + ".json");
  const auto rates_in = [](const json& machine) {
    std::map<std::string, double> rates;
    for (const char* name : {"copy_gbps", "read_gbps", "fp32_gflops"}) {
      const auto found = machine.find(name);
      if (found == machine.end() || !found->is_number()) continue;
      rates[name] = found->get<double>();
    }
    return rates;
  };
  const auto stored = file.empty() ? Result<std::string>("") : read_file(file);
  const json known = parse_json(stored.value_or(""));
  if (known.is_object()) return rates_in(known);
  OracleOptions options;
  options.threads = cores;
  const auto answer =
      ask_probe(installation, options, {{"verb", "probe"}, {"rates", true}});
  if (!answer) return std::unexpected(answer.error());
  const json machine = answer->value("machine", json::object());
  if (!file.empty()) {
    [[maybe_unused]] const auto written =
        write_file_whole(file, machine.dump());
  }
  return rates_in(machine);
}

Result<std::map<std::string, double>> measure_gpu(
    const Installation& installation, const GpuList& gpus, std::size_t number) {
  if (auto known = known_gpu(installation, gpus, number); !known.empty()) {
    return known;
  }
  OracleOptions options;
  options.device = "cuda:" + std::to_string(number);
  const auto answer = ask_probe(installation, options, {{"verb", "probe"}});
  if (!answer) return std::unexpected(answer.error());
  const json machine = answer->value("machine", json::object());
  keep_gpu(installation, gpus, number, machine);
  return gpu_numbers(machine);
}

}  // namespace weft
