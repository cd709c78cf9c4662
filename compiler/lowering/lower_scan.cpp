// Scans as stages of the program.
#include "compiler/lowering/lower.hpp"

namespace weft {

Virtual Lowering::scan(Reduction reduction, const Virtual& value,
                       std::int64_t dim) {
  const DType dtype = value.dtype();
  if (value.shape().empty() || value.shape()[dim] == 1) return value;
  if (dtype == DType::boolean) throw Unsupported{"a scan of truth values"};
  Stage stage;
  stage.is_scan = true;
  stage.reduction = reduction;
  stage.note = note_;
  for (std::size_t i = 0; i < value.shape().size(); ++i) {
    Index index;
    if (value.shape()[i] > 1) {
      const LoopVar variable = program_.new_variable(value.shape()[i]);
      const bool scanned = static_cast<std::int64_t>(i) == dim;
      (scanned ? stage.inner : stage.outer).push_back(variable);
      index = Index(variable);
    }
    stage.result_index.push_back(index);
  }
  stage.value = value.at(stage.result_index);
  const int buffer = static_cast<int>(program_.buffers.size());
  program_.buffers.push_back(
      {BufferKind::result, dtype, "s" + std::to_string(buffer), value.shape()});
  stage.results = {buffer};
  program_.stages.push_back(std::move(stage));
  const Virtual result(dtype, value.shape(), [=, this](const Position& where) {
    return arena().load(dtype, buffer, where);
  });
  return result.of_scan();
}

}  // namespace weft
