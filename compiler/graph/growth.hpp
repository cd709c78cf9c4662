// Sizes of a model that are symbols: the batch, say, or the batch and a
// sequence's length; two at most. A graph is always that of some sizes; beside
// it stands which of its integers grow with them, and by how much, so that the
// same graph can be had at any others. Such an integer is
//
//     rest + first * B + second * S + product * B * S
//          + square * S * S + square_product * B * S * S
//
// in whole numbers, B and S being the sizes (of one symbol: rest + first * B +
// square * B * B). Attention's scores grow with a length's square; of two
// symbols that is the second. It is found from what it is at several samples:
// of one symbol three tell the numbers and a fourth must agree; of two a pair
// of first sizes with each of three second ones tell them, and a seventh must
// agree. So must the sizes that the graph has itself. No size is in two of
// them, nor an extent in the graph, so that a number in a sample is that of one
// size alone; and what grows with a size's cube, or the first one's square,
// does not fit the last of them.
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

/// What each symbol is, in their order; empty: no size is a symbol.
using Sizes = std::vector<std::int64_t>;

inline constexpr std::size_t kSymbolsMax = 2;

/// The sizes' names in kernels.
inline constexpr std::string_view kSizeNames[kSymbolsMax] = {"batch",
                                                             "sequence"};

/// "the size 8", "the sizes 8 and 32".
std::string sizes_text(const Sizes& sizes);

/// How many times an integer has the first size in it, the second one, their
/// product, the last one's square, and that times the first one.
struct Rates {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::int64_t product = 0;
  std::int64_t square = 0;
  std::int64_t square_product = 0;

  /// How much of it is had by these sizes.
  std::int64_t at(const Sizes& sizes) const;
  /// Whether it has that size in it, whatever else; and how many times, where
  /// it has nothing else: else 0.
  bool uses(std::size_t symbol, std::size_t symbols) const;
  std::int64_t alone(std::size_t symbol, std::size_t symbols) const;
  bool operator==(const Rates&) const = default;
};

struct Growth {
  Sizes sizes{};  ///< at which the graph is
  /// JSON pointer into docs/reference/graph.md's form
  /// ("/nodes/2/values/0/shape/0") → how the integer there grows.
  std::map<std::string, Rates> per{};

  /// Whether anything in the graph grows.
  bool grows() const { return !per.empty(); }
  bool operator==(const Growth&) const = default;
};

/// Of one symbol {first, square}, of two all in their order, but for zeros at
/// the end of them beyond the first, or the third; and Rates of such a list.
std::vector<std::int64_t> list_of(const Rates& rates, std::size_t symbols);
std::optional<Rates> rates_of(const std::vector<std::int64_t>& list,
                              std::size_t symbols);

/// An integer at any sizes: rest, and what grows.
struct Multiple {
  Rates per;
  std::int64_t rest = 0;
};

/// So many values are needed to tell what grows, and that nothing else does.
std::size_t samples_min(std::size_t symbols);

/// What all these values (each with its sizes, among them those of samples)
/// are; nothing if they are no such integer.
std::optional<Multiple> multiple_of_sizes(
    std::span<const std::pair<Sizes, std::int64_t>> values);

/// What grows, of the same graph at several sizes: what some of the samples
/// say, which must explain the others. wrong_input names what is no
/// such integer. `sizes` are those of one of them, and the result's.
Result<Growth> growth_of(const std::map<Sizes, Graph>& graphs,
                         const Sizes& sizes);

/// Numbers among the arguments of calls that grow: (call, argument's position).
std::set<std::pair<std::string, std::size_t>> growing_arguments(
    const Graph& graph);

/// The graph at other sizes; itself where nothing grows. wrong_input where
/// there is none of those: an extent would be below zero.
Result<Graph> graph_at(const Graph& graph, const Sizes& sizes);

/// No sample is smaller. Longer than a vector: shorter loops are printed as
/// what they are alone.
inline constexpr std::int64_t kSampleMin = 32;

/// Samples to print code at: primes above the sizes, so that what is printed
/// for all of them alike holds by no chance (of a size that is a multiple of a
/// vector, or another extent's).
std::vector<Sizes> sample_sizes(const Graph& graph);

/// Samples to capture a model at, which may divide by its sizes: primes'
/// squares are all 1 more than a multiple of 24, so that n² / 8 * 8 would be n²
/// - 1 for all of them. Some of these are multiples of much, the last far off.
std::vector<Sizes> sizes_to_capture(const Graph& graph);

/// The graph at the size by which a code generator decides, whatever size it
/// prints: no sample, so that what grows is told by it, but a prime as these
/// are, of the problem's order.
Result<Graph> usual_graph(const Graph& graph);

/// At which a kernel for any sizes is judged besides its own: 1 (of two
/// symbols: both, and one of them), a prime, and larger ones that are multiples
/// of 24; no samples.
std::vector<Sizes> judged_sizes(const Sizes& sizes);

/// Where a size is read from.
struct SizeSource {
  /// The input; empty: whatever it is, nothing depends on it, and it may be
  /// taken to be 1.
  std::string node{};
  int dim = 0;
  std::int64_t per = 1;  ///< what it is divided by
};

/// For each size the first dimension of an input that is it, or else a multiple
/// of it. Where nothing grows but with the product of both, the first size is
/// taken to be that. wrong_input where no input says one of them.
Result<std::vector<SizeSource>> size_sources(const Graph& graph);

}  // namespace weft
