// Lowering: each ATen call becomes virtual tensors (a function from an index to
// a scalar expression, so that views and pointwise calls cost no storage) and
// reductions, which are the stages of the program.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/loops/program.hpp"
#include "compiler/lowering/lowering_options.hpp"

namespace weft {

using Shape = std::vector<std::int64_t>;
using Position = std::vector<Index>;

/// A value that exists only as a rule; cheap to copy.
class Virtual {
 public:
  using Rule = std::function<ExprId(const Position&)>;
  Virtual() = default;
  Virtual(DType dtype, Shape shape, Rule rule);

  /// The element there. The same place gives the same expression, at once.
  ExprId at(const Position& position) const;
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }

  /// What it is put together of, one after the other, where storing each by
  /// itself is better: a scan comes piece by piece anyway.
  struct Pieces {
    std::size_t dim = 0;
    std::vector<Virtual> values;
  };
  const Pieces* pieces() const { return pieces_.get(); }
  /// The same value, known to be a scan's; and whether it is.
  Virtual of_scan() const;
  bool is_scan() const { return is_scan_; }
  Virtual of_pieces(Pieces pieces) const;

 private:
  struct Memory;
  std::shared_ptr<const Pieces> pieces_;
  bool is_scan_ = false;
  DType dtype_ = DType::f32;
  Shape shape_;
  std::shared_ptr<Memory> memory_;
};

/// How many elements the dims hold together. (A tensor's fit 64 bits.)
std::int64_t elements_along(const Virtual& value, const Shape& dims);

/// A truth value, or none: what is read for certain has no guard.
using Guard = std::optional<ExprId>;

/// The computed value that a loop variable stands for.
using ComputedIndices = std::map<int, ExprId>;

/// Thrown inside lowering when a call is not covered; lower() returns it as an
/// Error. The rules nest deeply, and each would have to pass it on otherwise.
struct Unsupported {
  std::string what;
};

/// The state of one lowering, and the vocabulary the operators' rules use.
class Lowering {
 public:
  explicit Lowering(LoweringOptions options) : options_(options) {}

  Result<Program> run(const Graph& graph);

  ScalarArena& arena() { return program_.arena; }
  const LoweringOptions& options() const { return options_; }

  Virtual number(DType dtype, double value);
  /// True if that argument of the call is a symbolic number.
  bool is_symbolic(const Node& call, std::size_t argument) const;
  /// How many elements something has, or one fewer, rounded to that type as
  /// PyTorch rounds it.
  Virtual count(DType dtype, std::int64_t elements);
  Virtual cast(const Virtual& value, DType dtype);
  /// A factor of a matrix product or convolution. If this call's result is a
  /// half, its factors are rounded to it, as PyTorch's are. A factor computed
  /// from many reads is materialized, because the product would compute it
  /// again for each tile of its result.
  Virtual factor(const Virtual& value);
  /// The value in the type in which its elements are squared.
  Virtual wide(const Virtual& value);
  /// Whether that type is wider. The squares of float16 are numbers of float32.
  bool wants_wide(const Virtual& value) const;
  /// Whether all floating-point arguments of this call are halves.
  bool takes_halves() const { return is_half(argument_type_); }
  /// Whether this call's result is rounded to a half next, and functions need
  /// be no more exact.
  bool uses_half_functions() const { return half_functions_; }
  /// An operand of that captured type as PyTorch converts it before it computes
  /// in type `to`: a half's values are in float32, rounded to the half unless
  /// `keeps_digits`.
  Virtual converted(const Virtual& value, DType from, DType to,
                    bool keeps_digits);
  /// A call of the prelude's function, broadcasting the arguments.
  Virtual pointwise(const std::string& function, DType dtype,
                    const std::vector<Virtual>& arguments);
  /// Reduces those dimensions, which the result's shape no longer has.
  std::vector<Virtual> reduce(Reduction reduction, const Virtual& value,
                              const Shape& dims);
  /// The running sum or product along a dimension, in the same shape.
  Virtual scan(Reduction reduction, const Virtual& value, std::int64_t dim);
  /// What is added to an element of a tensor: `value`, to the element at
  /// `indices` in the picked dimensions, where all of `holds`.
  struct Addition {
    Guard holds;
    std::vector<ExprId> indices;
    ExprId value = 0;
  };
  using AdditionAt =
      std::function<Addition(const Position& point, const Position& entry)>;
  /// `base` with an addition for each entry at each point, in the order of the
  /// entries. Points go over `extents`, but for the dimensions in `picked`.
  Virtual add_in_place(const Virtual& base, const Shape& picked,
                       const Shape& extents, const Shape& entries,
                       const AdditionAt& at);
  /// The value, with each element computed once and stored for all readers.
  Virtual materialized(const Virtual& value);
  /// The same for a value that is read `times` over along its last `dims`
  /// dimensions, if recomputing it takes more than
  /// LoweringChoices::window_operations_max.
  Virtual materialized_for_windows(const Virtual& value, double times,
                                   std::size_t dims);
  /// All expressions that an element is computed from.
  std::vector<ExprId> expressions_of(const Virtual& value);
  /// A dimension of one again where `dims` says (positions in the result).
  Virtual restore(const Virtual& value, const Shape& dims);
  Virtual broadcast(const Virtual& value, const Shape& shape);
  Virtual reshape(const Virtual& value, const Shape& shape);
  /// The truth of 0 <= index < extent, or no guard where that is certain.
  Guard inside(const Index& index, std::int64_t extent);
  /// The same for every dimension.
  Guard inside(const Position& at, const Shape& shape);
  /// Both; no guard is true.
  Guard both(Guard a, Guard b);
  /// Whether the guard never holds.
  bool is_never(Guard guard);
  /// The element there, read where the guard holds; elsewhere `otherwise`.
  ExprId read_if(const Virtual& value, const Position& at, Guard guard,
                 ExprId otherwise);
  /// The truth of least <= index < end, of an index that the model gives. Where
  /// it can be outside, asking is a check, and a kernel that finds one raises.
  ExprId in_bounds(ExprId index, std::int64_t least, std::int64_t end);
  /// The element there, where some variables of the position stand for computed
  /// indices. Nothing is read where `guard` is false: it must imply that each
  /// index lies in its variable's extent.
  ExprId read_at(const Virtual& value, const Position& at,
                 const ComputedIndices& indices, ExprId guard);
  LoopVar new_variable(std::int64_t extent) {
    return program_.new_variable(extent);
  }
  /// The mean over the dims, and the sum of squares about it: of equal numbers
  /// that number and 0, where means are mended (lowering_options.hpp).
  struct Moments {
    Virtual mean;
    Virtual squares;
    std::int64_t count = 1;
  };
  /// `is_wide`: of wide(value). The mean and the squares may differ in type.
  Moments moments(const Virtual& value, const Shape& dims,
                  bool is_wide = false);
  /// Whether what the value is mostly made of has its second dimension
  /// innermost in memory: an image's rows lie apart, its channels together.
  bool lies_channels_last(const Virtual& value);

  const std::vector<std::optional<Virtual>>* find(
      const std::string& name) const;
  /// The type of that node's only value as captured, or nullptr.
  const TensorType* captured_type(const std::string& name) const;

 private:
  std::vector<std::optional<Virtual>> call(const Node& node);
  void check_type(const Node& node) const;
  DType type_of_arguments(const Node& node) const;
  /// The value as that type would hold it, in float32.
  Virtual rounded(const Virtual& value, DType half);
  bool sums_exactly_alike(std::int64_t count) const;
  /// Whether rounding the float32 to that type leaves it as it is.
  bool fits(ExprId value, DType half, int deep) const;
  void round_results(const Node& node,
                     std::vector<std::optional<Virtual>>& values);
  ExprId read_inside(const Virtual& value, const Position& at);
  ExprId indirect(ExprId id, const ComputedIndices& indices, ExprId guard);
  void declare_input(const Node& node, int position);
  void store_output(const Virtual& value, const TensorType& type, int position);
  void store(const Virtual& value, const TensorType& type, int output,
             const Index& offset);
  /// The function's name in the program.
  std::string function_for(const std::string& name, DType dtype) const;
  void drop_unused();
  /// Adds to an output itself where nothing else is made of the sums.
  void add_into_outputs();

  LoweringOptions options_;
  Program program_;
  std::map<std::string, std::vector<std::optional<Virtual>>> values_;
  std::map<std::string, TensorType> captured_;  ///< values' types, by name
  std::string note_;                            ///< of the call under way
  DType result_type_ = DType::f32;              ///< and what it results in
  DType argument_type_ = DType::f32;            ///< and what it is given
  bool half_functions_ = false;                 ///< may be used for it
  /// Symbolic arguments: (call, argument position).
  std::set<std::pair<std::string, std::size_t>> symbolic_arguments_;
};

Result<Program> lower(const Graph& graph, const LoweringOptions& options);

}  // namespace weft
