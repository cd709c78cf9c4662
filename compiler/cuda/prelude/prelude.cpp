#include "compiler/cuda/prelude/prelude.hpp"

#include <vector>

#include "embedded/compiler/cuda/prelude/arg_folds.cuh"
#include "embedded/compiler/cuda/prelude/block.cuh"
#include "embedded/compiler/cuda/prelude/cluster.cuh"
#include "embedded/compiler/cuda/prelude/coarse.cuh"
#include "embedded/compiler/cuda/prelude/coarse_quotient.cuh"
#include "embedded/compiler/cuda/prelude/columns.cuh"
#include "embedded/compiler/cuda/prelude/divisor.cuh"
#include "embedded/compiler/cuda/prelude/exp_below.cuh"
#include "embedded/compiler/cuda/prelude/exponentials.cuh"
#include "embedded/compiler/cuda/prelude/folds.cuh"
#include "embedded/compiler/cuda/prelude/halves.cuh"
#include "embedded/compiler/cuda/prelude/hardware_exp2.cuh"
#include "embedded/compiler/cuda/prelude/quotient.cuh"
#include "embedded/compiler/cuda/prelude/ring.cuh"
#include "embedded/compiler/cuda/prelude/scan.cuh"
#include "embedded/compiler/cuda/prelude/share.cuh"
#include "embedded/compiler/cuda/prelude/spread.cuh"
#include "embedded/compiler/cuda/prelude/stencil.cuh"
#include "embedded/compiler/cuda/prelude/stream.cuh"
#include "embedded/compiler/cuda/prelude/team.cuh"
#include "embedded/compiler/cuda/prelude/vectors.cuh"
#include "embedded/compiler/cuda/prelude/windows.cuh"

namespace weft {
namespace {

struct Section {
  const char* name;
  const char* text;
  std::vector<std::string> needs;
};

// In the order of printing: each after what it needs.
const std::vector<Section>& sections_in_order() {
  static const std::vector<Section> list = {
      {"vectors", embedded::compiler_cuda_prelude_vectors, {}},
      {"halves", embedded::compiler_cuda_prelude_halves, {}},
      {"hardware_exp2", embedded::compiler_cuda_prelude_hardware_exp2, {}},
      {"exp_below",
       embedded::compiler_cuda_prelude_exp_below,
       {"hardware_exp2"}},
      {"coarse", embedded::compiler_cuda_prelude_coarse, {"hardware_exp2"}},
      {"divisor", embedded::compiler_cuda_prelude_divisor, {}},
      {"quotient", embedded::compiler_cuda_prelude_quotient, {"divisor"}},
      {"share", embedded::compiler_cuda_prelude_share, {"quotient"}},
      {"coarse_quotient",
       embedded::compiler_cuda_prelude_coarse_quotient,
       {"divisor"}},
      {"folds", embedded::compiler_cuda_prelude_folds, {}},
      {"arg_folds", embedded::compiler_cuda_prelude_arg_folds, {"folds"}},
      {"exponentials", embedded::compiler_cuda_prelude_exponentials, {"folds"}},
      {"spread", embedded::compiler_cuda_prelude_spread, {"folds"}},
      {"block", embedded::compiler_cuda_prelude_block, {"folds"}},
      {"columns", embedded::compiler_cuda_prelude_columns, {"folds"}},
      {"cluster", embedded::compiler_cuda_prelude_cluster, {"block"}},
      {"team", embedded::compiler_cuda_prelude_team, {"block"}},
      {"ring", embedded::compiler_cuda_prelude_ring, {}},
      {"stream", embedded::compiler_cuda_prelude_stream, {"folds"}},
      {"scan", embedded::compiler_cuda_prelude_scan, {"folds"}},
      {"windows", embedded::compiler_cuda_prelude_windows, {}},
      {"stencil", embedded::compiler_cuda_prelude_stencil, {"folds"}},
  };
  return list;
}

}  // namespace

std::string cuda_prelude(const std::set<std::string>& sections) {
  std::set<std::string> wanted = sections;
  wanted.insert("vectors");
  const auto& list = sections_in_order();
  for (auto section = list.rbegin(); section != list.rend(); ++section) {
    if (!wanted.contains(section->name)) continue;
    wanted.insert(section->needs.begin(), section->needs.end());
  }
  std::string text;
  for (const Section& section : list) {
    if (wanted.contains(section.name)) (text += section.text) += "\n";
  }
  return text;
}

}  // namespace weft
