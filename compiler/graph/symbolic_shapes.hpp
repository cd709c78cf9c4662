// Symbolic sizes of a model: the batch, or the batch and a sequence length. At
// most two sizes are symbols.
//
// A graph always has concrete sizes. SymbolicShapes stores which of its
// integers depend on the symbols, and the coefficients, so that the same graph
// can be evaluated at other sizes. With the symbols B and S, such an integer is
// the polynomial
//
//     constant + first * B + second * S + product * B * S
//              + square * S * S + square_product * B * S * S
//
// With one symbol it is constant + first * B + square * B * B. (Attention
// scores depend on the square of a length.)
//
// Coefficients are fitted to several captures ("samples"). One symbol needs
// three samples and a fourth that must agree. Two symbols need two first sizes,
// each with the same three second sizes, and a seventh sample that must agree.
// No size occurs in two samples or as another extent of the graph, so a number
// in a sample belongs to one size. Terms that are not in the polynomial (a
// cube, or the square of the first size of two) contradict the last sample.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/result.hpp"

namespace weft {

struct Graph;

/// Values of the symbols, in their order. Empty: no size is symbolic.
using Sizes = std::vector<std::int64_t>;

inline constexpr std::size_t kSymbolsMax = 2;

/// Names of the symbols in kernels.
inline constexpr std::string_view kSizeNames[kSymbolsMax] = {"batch",
                                                             "sequence"};

/// "the size 8", "the sizes 8 and 32".
std::string sizes_text(const Sizes& sizes);

/// Coefficients of the polynomial's terms, without the constant.
struct Coefficients {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::int64_t product = 0;
  std::int64_t square = 0;
  std::int64_t square_product = 0;

  /// Value of these terms at the given sizes.
  std::int64_t at(const Sizes& sizes) const;
  /// `uses`: true if the integer depends on the symbol. `only`: its coefficient
  /// if it depends on nothing else, otherwise 0.
  bool uses(std::size_t symbol, std::size_t symbols) const;
  std::int64_t only(std::size_t symbol, std::size_t symbols) const;
  bool operator==(const Coefficients&) const = default;
};

struct SymbolicShapes {
  Sizes sizes{};  ///< at which the graph is
  /// JSON pointer into the graph's JSON (docs/reference/graph.md), such as
  /// "/nodes/2/values/0/shape/0", to the coefficients of the integer there.
  std::map<std::string, Coefficients> coefficients{};

  /// True if any integer of the graph depends on a symbol.
  bool is_symbolic() const { return !coefficients.empty(); }
  bool operator==(const SymbolicShapes&) const = default;
};

/// The coefficients as a list, and back. One symbol: {first, square}. Two
/// symbols: all five in order. Trailing zeros are left out, but at least one
/// entry (one symbol) or three (two symbols) remain.
std::vector<std::int64_t> list_of(const Coefficients& rates,
                                  std::size_t symbols);
std::optional<Coefficients> coefficients_of(
    const std::vector<std::int64_t>& list, std::size_t symbols);

/// An integer at any sizes.
struct Polynomial {
  Coefficients coefficients;
  std::int64_t constant = 0;
};

/// Number of samples that determine the coefficients and check that there are
/// no other terms.
std::size_t samples_min(std::size_t symbols);

/// The polynomial through all values, each given with its sizes. Empty if there
/// is none.
std::optional<Polynomial> fit_polynomial(
    std::span<const std::pair<Sizes, std::int64_t>> values);

/// Fits the coefficients of every integer that differs between captures of one
/// graph at several sizes. Some samples determine them and must explain the
/// others; otherwise wrong_input names the integer. `sizes` are those of one
/// sample and become the result's.
Result<SymbolicShapes> fit_symbolic_shapes(const std::map<Sizes, Graph>& graphs,
                                           const Sizes& sizes);

/// Call arguments that are symbolic numbers: (call, argument position).
std::set<std::pair<std::string, std::size_t>> symbolic_arguments(
    const Graph& graph);

/// The graph at other sizes; unchanged if nothing is symbolic. wrong_input if
/// an extent would be negative there.
Result<Graph> graph_at(const Graph& graph, const Sizes& sizes);

/// Smallest size of a sample. It is longer than a vector, because shorter loops
/// are unrolled to straight-line code.
inline constexpr std::int64_t kSampleMin = 32;

/// Sizes at which code is generated to find a common text: primes above the
/// graph's sizes. A text common to all of them does not hold by chance, such as
/// for a size that is a multiple of a vector or equals another extent.
std::vector<Sizes> sample_sizes(const Graph& graph);

/// Sizes at which to capture a model that may divide by its sizes. Squares of
/// primes are 1 more than a multiple of 24, so for primes n² / 8 * 8 would
/// equal n² - 1. Some of these sizes therefore have many divisors, and the last
/// is far from the others.
std::vector<Sizes> sizes_to_capture(const Graph& graph);

/// The graph at the sizes that code generation uses for its decisions, whatever
/// size it prints: of the problem's order of magnitude, prime, and no sample,
/// so that symbolic extents stay recognisable.
Result<Graph> hint_graph(const Graph& graph);

/// Sizes, besides its own, at which a kernel for any size is verified: 1 (with
/// two symbols, both and one of them), a prime, and larger multiples of 24.
/// None is a sample.
std::vector<Sizes> judged_sizes(const Sizes& sizes);

/// Dimension of an input from which a kernel's caller reads a size.
struct SizeSource {
  /// Name of the input. Empty: nothing depends on the size, which may be taken
  /// as 1.
  std::string node{};
  int dim = 0;
  std::int64_t divisor = 1;  ///< what it is divided by
};

/// For each symbol, the first input dimension that equals it, or else a
/// multiple of it. If everything depends only on the product of both symbols,
/// the first symbol is taken to be that product. wrong_input if no input shows
/// a symbol.
Result<std::vector<SizeSource>> size_sources(const Graph& graph);

}  // namespace weft
