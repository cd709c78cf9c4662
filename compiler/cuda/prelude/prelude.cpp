#include "compiler/cuda/prelude/prelude.hpp"

#include <map>
#include <vector>

#include "compiler/cuda/prelude/text.hpp"

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
      {"packs", cuda_packs, {}},
      {"halves", cuda_halves, {}},
      {"hardware_exp2", cuda_hardware_exp2, {}},
      {"exp_below", cuda_exp_below, {"hardware_exp2"}},
      {"coarse", cuda_coarse, {"hardware_exp2"}},
      {"divisor", cuda_divisor, {}},
      {"quotient", cuda_quotient, {"divisor"}},
      {"share", cuda_share, {"quotient"}},
      {"coarse_quotient", cuda_coarse_quotient, {"divisor"}},
      {"folds", cuda_folds, {}},
      {"arg_folds", cuda_arg_folds, {"folds"}},
      {"exponentials", cuda_exponentials, {"folds"}},
      {"spread", cuda_spread, {"folds"}},
      {"block", cuda_block, {"folds"}},
      {"columns", cuda_columns, {"folds"}},
      {"cluster", cuda_cluster, {"block"}},
      {"team", cuda_team, {"block"}},
      {"ring", cuda_ring, {}},
      {"stream", cuda_stream, {"folds"}},
      {"scan", cuda_scan, {"folds"}},
      {"windows", cuda_windows, {}},
      {"strips", cuda_strips, {"folds"}},
  };
  return list;
}

}  // namespace

std::string cuda_prelude(const std::set<std::string>& sections) {
  std::set<std::string> wanted = sections;
  wanted.insert("packs");
  const auto& list = sections_in_order();
  for (auto section = list.rbegin(); section != list.rend(); ++section) {
    if (!wanted.contains(section->name)) continue;
    wanted.insert(section->needs.begin(), section->needs.end());
  }
  std::string text;
  for (const Section& section : list) {
    if (wanted.contains(section.name)) text += section.text;
  }
  return text;
}

}  // namespace weft
