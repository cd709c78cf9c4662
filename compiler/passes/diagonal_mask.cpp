#include "compiler/passes/diagonal_mask.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <variant>

#include "compiler/graph/operator_facts.hpp"
#include "compiler/loops/scalar.hpp"

namespace weft {
namespace {

using Offset = std::int64_t;

/// arange() along the rows' numbers or the columns'.
struct Line {
  bool counts_rows = false;
  double start = 0;
  double step = 1;
};

/// A number, lines, or matrices.
using Value = std::variant<double, Line, DiagonalMask>;
using Found = std::optional<Value>;

/// How deep a mask is looked into.
constexpr int kDepthMax = 32;
/// Diagonals at most.
constexpr Offset kDiagonalsMax = 1 << 20;

using Binary = double (*)(double, double);

Binary binary(std::string_view name) {
  static const std::map<std::string_view, Binary> known = {
      {"eq", [](double a, double b) -> double { return a == b; }},
      {"ne", [](double a, double b) -> double { return a != b; }},
      {"lt", [](double a, double b) -> double { return a < b; }},
      {"le", [](double a, double b) -> double { return a <= b; }},
      {"gt", [](double a, double b) -> double { return a > b; }},
      {"ge", [](double a, double b) -> double { return a >= b; }},
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"rsub", [](double a, double b) { return b - a; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"logical_and", [](double a, double b) -> double { return a && b; }},
      {"logical_or", [](double a, double b) -> double { return a || b; }},
  };
  const auto found = known.find(name);
  return found == known.end() ? nullptr : found->second;
}

/// Whether it goes by the two numbers' difference alone.
bool compares(std::string_view name) {
  static const std::set<std::string_view> known = {"eq", "ne", "lt",  "le",
                                                   "gt", "ge", "sub", "rsub"};
  return known.contains(name);
}

class Reader {
 public:
  explicit Reader(const NodeIndex& index) : index_(index) {}

  Found read(const Node* node) {
    const TensorType* type = type_of(node);
    if (type == nullptr || node->kind != NodeKind::call ||
        depth_ == kDepthMax) {
      return std::nullopt;
    }
    // Once: what two operands share would be read twice, and again below.
    const auto known = known_.find(node);
    if (known != known_.end()) return known->second;
    ++depth_;
    Found found = read(*node, *type);
    --depth_;
    return known_.emplace(node, std::move(found)).first->second;
  }

  /// Of the shape's last two dimensions.
  static std::optional<DiagonalMask> matrix(
      const TensorType& type, const std::function<double(Offset)>& value) {
    const std::size_t rank = type.shape.size();
    if (rank < 2) return std::nullopt;
    DiagonalMask mask{type.shape[rank - 2], type.shape[rank - 1], {}};
    if (mask.rows < 1 || mask.columns < 1 ||
        mask.rows + mask.columns > kDiagonalsMax) {
      return std::nullopt;
    }
    for (Offset d = 1 - mask.rows; d < mask.columns; ++d) {
      mask.values.push_back(value(d));
    }
    return mask;
  }

 private:
  Found read(const Node& node, const TensorType& type) {
    const std::string_view name = operator_name(node.target);
    if (name == "full" || name == "full_like") {
      return filled(type, NodeIndex::number(node, 1));
    }
    if (name == "scalar_tensor") {
      return filled(type, NodeIndex::number(node, 0));
    }
    if (name == "ones" || name == "ones_like") return filled(type, 1.0);
    if (name == "zeros" || name == "zeros_like") return filled(type, 0.0);
    if (name == "arange") return arange(node, type);
    if (name == "tril" || name == "triu") return half(node, type, name);
    if (name == "logical_not" ||
        (name == "bitwise_not" && type.dtype == DType::boolean)) {
      return each(type, {read(index_.argument(node, 0))},
                  [](const double* x) -> double { return x[0] == 0; });
    }
    if (name == "neg") {
      return each(type, {read(index_.argument(node, 0))},
                  [](const double* x) { return -x[0]; });
    }
    if (name == "masked_fill") {
      return each(type, {operand(node, 0), operand(node, 1), operand(node, 2)},
                  [](const double* x) { return x[1] != 0 ? x[2] : x[0]; });
    }
    if (name == "where") {
      return each(type, {operand(node, 0), operand(node, 1), operand(node, 2)},
                  [](const double* x) { return x[0] != 0 ? x[1] : x[2]; });
    }
    if (is_copy(node.target) || name == "_to_copy" || is_view(node.target)) {
      return same(node, type);
    }
    return pairs(node, type, name);
  }

  static Found filled(const TensorType& type, std::optional<double> value) {
    if (!value) return std::nullopt;
    if (type.shape.empty()) return *value;
    const auto mask = matrix(type, [&](Offset) { return *value; });
    return mask ? Found(*mask) : std::nullopt;
  }

  static Found arange(const Node& node, const TensorType& type) {
    if (is_half(type.dtype)) return std::nullopt;  // its numbers are rounded
    if (node.args.size() == 1) return Line{};      // of its end
    const auto start = NodeIndex::number(node, 0);
    const auto step = node.args.size() > 2 ? NodeIndex::number(node, 2) : 1.0;
    if (!start || !step) return std::nullopt;
    return Line{false, *start, *step};
  }

  Found half(const Node& node, const TensorType& type, std::string_view name) {
    const Found whole = read(index_.argument(node, 0));
    const auto shift = node.args.size() > 1 ? NodeIndex::number(node, 1) : 0.0;
    const auto* from = whole ? std::get_if<DiagonalMask>(&*whole) : nullptr;
    if (from == nullptr || !shift) return std::nullopt;
    const auto mask = matrix(type, [&](Offset d) {
      const auto at = static_cast<double>(d);
      const bool stays = name == "tril" ? at <= *shift : at >= *shift;
      return stays ? from->at(d) : 0.0;
    });
    return mask ? Found(*mask) : std::nullopt;
  }

  /// A number as it stands, or what the argument holds.
  Found operand(const Node& node, std::size_t argument) {
    if (const auto value = NodeIndex::number(node, argument)) return *value;
    return read(index_.argument(node, argument));
  }

  Found pairs(const Node& node, const TensorType& type, std::string_view name) {
    const bool are_flags = type.dtype == DType::boolean;
    if (are_flags && name == "bitwise_and") name = "logical_and";
    if (are_flags && name == "bitwise_or") name = "logical_or";
    const Binary of = binary(name);
    if (of == nullptr || node.args.size() != 2 || !node.kwargs.empty()) {
      return std::nullopt;
    }
    const Found a = operand(node, 0), b = operand(node, 1);
    if (!a || !b) return std::nullopt;
    const auto* left = std::get_if<Line>(&*a);
    const auto* right = std::get_if<Line>(&*b);
    if (left != nullptr && right != nullptr) {
      return compares(name) ? lines(type, *left, *right, of) : std::nullopt;
    }
    return each(type, {a, b}, [of](const double* x) { return of(x[0], x[1]); });
  }

  /// One counts rows, the other columns, by the same steps: their difference
  /// is the same all along a diagonal, and `of` compares or subtracts.
  static Found lines(const TensorType& type, const Line& left,
                     const Line& right, Binary of) {
    if (left.counts_rows == right.counts_rows || left.step != right.step) {
      return std::nullopt;
    }
    const auto mask = matrix(type, [&](Offset d) {
      const auto row = static_cast<double>(d < 0 ? -d : 0);
      const double column = row + static_cast<double>(d);
      const auto at = [&](const Line& line) {
        return line.start + line.step * (line.counts_rows ? row : column);
      };
      return of(at(left), at(right));
    });
    return mask ? Found(*mask) : std::nullopt;
  }

  static Found each(const TensorType& type, const std::vector<Found>& operands,
                    const std::function<double(const double*)>& of) {
    for (const Found& left : operands) {
      if (!left || std::holds_alternative<Line>(*left)) return std::nullopt;
      const auto* mask = std::get_if<DiagonalMask>(&*left);
      const std::size_t rank = type.shape.size();
      if (mask != nullptr && (rank < 2 || mask->rows != type.shape[rank - 2] ||
                              mask->columns != type.shape[rank - 1])) {
        return std::nullopt;
      }
    }
    const auto value = [&](Offset d) {
      double numbers[3] = {};
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const auto* mask = std::get_if<DiagonalMask>(&*operands[i]);
        numbers[i] = mask ? mask->at(d) : std::get<double>(*operands[i]);
      }
      return of(numbers);
    };
    if (type.shape.empty()) return value(0);
    const auto mask = matrix(type, value);
    return mask ? Found(*mask) : std::nullopt;
  }

  /// Copies, casts, and views that leave the last two dimensions.
  Found same(const Node& node, const TensorType& type) {
    Found from = read(index_.argument(node, 0));
    if (!from) return std::nullopt;
    const std::size_t rank = type.shape.size();
    if (auto* line = std::get_if<Line>(&*from)) return turned(*line, node);
    if (auto* mask = std::get_if<DiagonalMask>(&*from)) {
      const bool moves = node.target.starts_with("aten.permute") ||
                         node.target.starts_with("aten.transpose") ||
                         node.target.starts_with("aten.t.");
      if (moves || rank < 2 || mask->rows != type.shape[rank - 2] ||
          mask->columns != type.shape[rank - 1] ||
          operator_name(node.target) == "slice" ||
          operator_name(node.target) == "as_strided") {
        return std::nullopt;
      }
    } else if (!type.shape.empty()) {
      return std::nullopt;
    }
    if (operator_name(node.target) != "_to_copy") return from;
    return each(type, {from}, [&](const double* x) {
      if (type.dtype == DType::boolean) return x[0] != 0 ? 1.0 : 0.0;
      const bool overflows = type.dtype == DType::f16 && std::abs(x[0]) > 65504;
      return overflows
                 ? std::copysign(std::numeric_limits<double>::infinity(), x[0])
                 : x[0];
    });
  }

  /// A line of the same numbers that lies along another dimension.
  Found turned(Line line, const Node& node) const {
    const TensorType& from = *type_of(index_.argument(node, 0));
    const TensorType& to = *type_of(&node);
    const std::size_t rank = to.shape.size();
    const auto name = operator_name(node.target);
    if (element_count(from) != element_count(to) || name == "slice" ||
        name == "as_strided" || (name == "_to_copy" && is_half(to.dtype))) {
      return std::nullopt;
    }
    const std::int64_t elements = element_count(to);
    const bool in_rows =
        rank >= 2 && to.shape[rank - 2] == elements && to.shape[rank - 1] == 1;
    const bool in_columns = rank >= 1 && to.shape[rank - 1] == elements;
    if (!in_rows && !in_columns) return std::nullopt;
    line.counts_rows = in_rows;
    return line;
  }

  const NodeIndex& index_;
  std::map<const Node*, Found> known_;
  int depth_ = 0;
};

}  // namespace

std::optional<DiagonalMask> diagonal_mask(const NodeIndex& index,
                                          const Node& mask) {
  const Found found = Reader(index).read(&mask);
  const auto* diagonal = found ? std::get_if<DiagonalMask>(&*found) : nullptr;
  return diagonal ? std::optional(*diagonal) : std::nullopt;
}

}  // namespace weft
