// Capabilities of a machine in a run: capture the model, build kernels that
// others judge, and judge (check and time) kernels. All rules about which
// machines must be alike are here, as pure functions of MachineFacts.
//
// A run has one timing class (RunStart::device_class). Verdicts and timings
// come from devices of that class only, so that two classes are never compared.
//
//   judge    The device is of the run's class, and its machine builds for it.
//   capture  The same PyTorch. For a GPU run, also a GPU.
//   build T  The builder of target T gives the same results as the class's own.
//            Processors: the same processor, vector width and compiler.
//            GPUs: the same Triton and PyTorch, or an NVRTC; no GPU.
//
// A location that judges builds its own kernels. A location that can only build
// announces "build T", and builds for all others.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/pending_effects.hpp"
#include "messages/device_class.hpp"
#include "messages/run.hpp"

namespace weft {

namespace capability {
inline const std::string capture = "capture";
inline const std::string judge = "judge";
std::string build(std::string_view target);  ///< "build cpu"
}  // namespace capability

/// All that decides what a machine can do.
struct MachineFacts {
  Machine machine;  ///< gpus: those that it offers
  std::string torch;
  std::string triton;
  bool has_nvrtc = false;
  std::string driver;
  std::string compiler;  ///< "g++ 12.2.0"; empty: none
  /// The user's choice of "capture", "build" and "judge"; empty: all.
  std::vector<std::string> only;
};

/// The class of the machine's processor, or of one of its GPUs, in a run for
/// that target.
DeviceClass processor_class(const MachineFacts& facts, std::string_view target);
DeviceClass gpu_class(const MachineFacts& facts, const Gpu& gpu);

/// The class of the first of the GPUs; without GPUs, of the processor.
DeviceClass class_of(const MachineFacts& facts, const std::vector<Gpu>& gpus,
                     std::string_view target);

/// For people, for --classes and for the journal. Different classes have
/// different names. Empty: the run was begun before there were classes.
std::string class_name(const DeviceClass& device_class);

/// Capabilities of the machine's processor in a run of that class.
std::vector<std::string> machine_capabilities(const MachineFacts& facts,
                                              const DeviceClass& timing_class,
                                              std::string_view target);

/// Capabilities of the machine's GPU in a run of that class.
std::vector<std::string> gpu_capabilities(const MachineFacts& facts,
                                          const Gpu& gpu,
                                          const DeviceClass& timing_class,
                                          std::string_view target);

bool has_capability(const std::vector<std::string>& capabilities,
                    std::string_view capability);

/// A class that could be a run's: its machine can judge on it.
struct TimingClass {
  DeviceClass device_class;
  int devices = 0;
  std::string target;  ///< of the run: what "auto" means there
  MachineFacts facts;  ///< of the first machine that has it
  Gpu gpu;             ///< of a GPU's class
};

/// The classes that machines could judge on, by name. `target` may be "auto":
/// then a machine's GPUs are preferred to its processor.
std::vector<TimingClass> timing_classes(const std::vector<MachineFacts>& all,
                                        std::string_view target);

/// The one with most devices whose name contains `wanted`, without regard to
/// case; of equal ones the first by name. Null: none. `is_whole`: its name is
/// `wanted`, which names of other classes may contain.
const TimingClass* choose_class(const std::vector<TimingClass>& classes,
                                std::string_view wanted, bool is_whole = false);

/// Whether the run has a timing class: those of an older weft have none, and
/// all their locations are copies of the head.
bool has_class(const RunStart& run);

/// Whether the head itself can do that.
bool head_can(const RunStart& run, std::string_view capability);

/// Has it done at the head if the head can, else at any location that can; for
/// one that is not there it waits, RunStart::node_wait_ms at most.
void place(LeaseTerms& terms, const RunStart& run,
           const std::string& capability);

}  // namespace weft
