// One size of a model that is a symbol: the batch, say. A graph is always that
// of one size; beside it stands which of its integers grow with the size, and
// by how much, so that the same graph can be had at any other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "messages/result.hpp"

namespace weft {

struct Graph;

struct Growth {
  std::int64_t size = 0;  ///< at which the graph is; 0: none is a symbol
  /// JSON pointer into docs/graph.md's form ("/nodes/2/values/0/shape/0") → by
  /// how much the integer there grows with each one more of the size.
  std::map<std::string, std::int64_t> per{};

  /// Whether anything in the graph grows.
  bool grows() const { return !per.empty(); }
  bool operator==(const Growth&) const = default;
};

/// rest + per * size.
struct Multiple {
  std::int64_t per = 0;
  std::int64_t rest = 0;
};

/// What all these values (each with its size, two at least) are; nothing if no
/// number and multiple is.
std::optional<Multiple> multiple_of_size(
    std::span<const std::pair<std::int64_t, std::int64_t>> values);

/// What grows, of the same graph at several sizes: the differences between
/// two, which must explain the others. wrong_input names what is not a number
/// plus a multiple of the size. `size` is one of them, and the result's.
Result<Growth> growth_of(const std::map<std::int64_t, Graph>& graphs,
                         std::int64_t size);

/// The graph at another size; itself where nothing grows. wrong_input where
/// there is none of that size: an extent would be below zero.
Result<Graph> graph_at(const Graph& graph, std::int64_t size);

/// Three primes above the size: what is printed for all of them alike holds by
/// no chance (of a size that is a multiple of a vector, or another extent's).
/// None of them is an extent in the graph.
std::vector<std::int64_t> sample_sizes(const Graph& graph);

/// At which a kernel for any size is judged besides its own: 1, a prime and a
/// larger one, none of them a sample.
std::vector<std::int64_t> judged_sizes(std::int64_t size);

/// Where the size is read from: the first dimension of an input that is it, or
/// else a multiple of it.
struct SizeSource {
  std::string node;
  int dim = 0;
  std::int64_t per = 1;  ///< what it is divided by
};

/// wrong_input where no input has the size, or a multiple, as a dimension.
Result<SizeSource> size_source(const Graph& graph);

}  // namespace weft
