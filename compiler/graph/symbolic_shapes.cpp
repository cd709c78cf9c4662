#include "compiler/graph/symbolic_shapes.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/graph/graph_json.hpp"

namespace weft {
namespace {

using Samples = std::vector<std::pair<Sizes, const Json*>>;

/// "/nodes/3/args/1" of a node that has a name: "view_2 (args/1)".
std::string location_text(const Json& graph, const std::string& pointer) {
  constexpr std::string_view kNodes = "/nodes/";
  if (!pointer.starts_with(kNodes)) return pointer;
  const auto end = pointer.find('/', kNodes.size());
  const Json& node = graph.at(Json::json_pointer(pointer.substr(0, end)));
  const std::string target = node.value("target", Json()).is_string()
                                 ? node.at("target").get<std::string>()
                                 : std::string("input");
  const std::string inside =
      end == std::string::npos ? "" : pointer.substr(end + 1);
  return node.value("name", "a node") + " (" + target + "), " + inside;
}

class Comparison {
 public:
  Comparison(const Json& graph, SymbolicShapes& symbolic_shapes)
      : graph_(graph), symbolic_shapes_(symbolic_shapes) {}

  Result<void> compare(const Samples& samples, const std::string& pointer) {
    const Json& first = *samples.front().second;
    for (const auto& [size, value] : samples) {
      const bool alike =
          value->type() == first.type() ||
          (value->is_number_integer() && first.is_number_integer());
      if (!alike || value->size() != first.size())
        return misfit(samples, pointer);
    }
    if (first.is_number_integer()) return compare_integers(samples, pointer);
    if (first.is_array()) {
      for (std::size_t i = 0; i < first.size(); ++i) {
        if (auto same = descend(samples, pointer, i); !same) return same;
      }
      return {};
    }
    if (first.is_object()) {
      for (const auto& [key, inner] : first.items()) {
        for (const auto& [size, value] : samples) {
          if (!value->contains(key)) return misfit(samples, pointer);
        }
        if (auto same = descend(samples, pointer, key); !same) return same;
      }
      return {};
    }
    for (const auto& [size, value] : samples) {
      if (*value != first) return misfit(samples, pointer);
    }
    return {};
  }

 private:
  template <typename Key>
  Result<void> descend(const Samples& samples, const std::string& pointer,
                       const Key& key) {
    Samples inner;
    for (const auto& [size, value] : samples) {
      inner.emplace_back(size, &value->at(key));
    }
    const auto below = Json::json_pointer(pointer) / key;
    return compare(inner, below.to_string());
  }

  Result<void> compare_integers(const Samples& samples,
                                const std::string& pointer) {
    const Json& first = *samples.front().second;
    const bool is_one = std::ranges::all_of(
        samples, [&](const auto& sample) { return *sample.second == first; });
    if (is_one) return {};
    std::vector<std::pair<Sizes, std::int64_t>> values;
    for (const auto& [sizes, value] : samples) {
      values.emplace_back(sizes, value->get<std::int64_t>());
    }
    const auto found = fit_polynomial(values);
    if (!found) return misfit(samples, pointer);
    symbolic_shapes_.coefficients[pointer] = found->coefficients;
    return {};
  }

  std::unexpected<Error> misfit(const Samples& samples,
                                const std::string& pointer) const {
    std::string text = location_text(graph_, pointer);
    const char* before = ": ";
    for (const auto& [sizes, value] : samples) {
      std::string value_text =
          value->dump(-1, ' ', false, Json::error_handler_t::replace);
      if (value_text.size() > 60) value_text = value_text.substr(0, 60) + "…";
      text += before + value_text + " at " + sizes_text(sizes);
      before = ", ";
    }
    const bool is_one = samples.front().first.size() == 1;
    return fail(ErrorCode::wrong_input,
                text + ": that is no number plus multiples of the " +
                    (is_one ? "size and of its square"
                            : "sizes, of their product, of the second one's "
                              "square and of that times the first one"));
  }

  const Json& graph_;
  SymbolicShapes& symbolic_shapes_;
};

/// What whole numbers of 18 digits and sizes' squares make of each other.
__extension__ using Wide = __int128;

/// constant + linear * s + square * s²
struct Quadratic {
  Wide constant = 0, linear = 0, square = 0;
};

/// In whole numbers through three values; nothing if there is none.
std::optional<Quadratic> quadratic_through(
    const std::vector<std::pair<std::int64_t, Wide>>& values) {
  const auto& [x, at_x] = values[0];
  const auto& [y, at_y] = values[1];
  const auto& [z, at_z] = values[2];
  if ((at_y - at_x) % (y - x) != 0 || (at_z - at_y) % (z - y) != 0) return {};
  const Wide slope = (at_y - at_x) / (y - x);
  const Wide next = (at_z - at_y) / (z - y);
  if ((next - slope) % (z - x) != 0) return {};
  Quadratic found;
  found.square = (next - slope) / (z - x);
  found.linear = slope - found.square * (x + y);
  found.constant = at_x - (found.linear + found.square * x) * x;
  return found;
}

/// By the first size, the values by the last one.
using Grid = std::map<std::int64_t, std::map<std::int64_t, std::int64_t>>;

/// The last sizes that the values of two first ones have in common.
std::vector<std::int64_t> in_both(const Grid::mapped_type& low,
                                  const Grid::mapped_type& high) {
  std::vector<std::int64_t> sizes;
  for (const auto& [size, value] : low) {
    if (high.contains(size)) sizes.push_back(size);
  }
  return sizes;
}

bool fits(Wide number) { return number <= INT64_MAX && number >= INT64_MIN; }

Wide wide_at(const Coefficients& rates, const Sizes& sizes) {
  const Wide first = sizes[0], last = sizes.back();
  const Wide linear_and_square =
      rates.first * first + rates.square * last * last;
  if (sizes.size() == 1) return linear_and_square;
  return linear_and_square + (rates.second + rates.product * first) * last +
         rates.square_product * first * last * last;
}

/// Of `rest` what the first size is beside, of `first_coefficient` what it is
/// with.
std::optional<Polynomial> polynomial_of(const Quadratic& constant,
                                        const Quadratic& first_coefficient) {
  for (const Quadratic& quadratic : {constant, first_coefficient}) {
    if (!fits(quadratic.constant) || !fits(quadratic.linear) ||
        !fits(quadratic.square))
      return {};
  }
  const auto number = [](Wide wide) { return static_cast<std::int64_t>(wide); };
  return Polynomial{{.first = number(first_coefficient.constant),
                     .second = number(constant.linear),
                     .product = number(first_coefficient.linear),
                     .square = number(constant.square),
                     .square_product = number(first_coefficient.square)},
                    number(constant.constant)};
}

/// What three values of one size say.
std::optional<Polynomial> fit_one_symbol(
    std::span<const std::pair<Sizes, std::int64_t>> values) {
  std::vector<std::pair<std::int64_t, Wide>> three;
  for (const auto& [sizes, value] : values.first(3)) {
    three.emplace_back(sizes[0], value);
  }
  const auto found = quadratic_through(three);
  if (!found) return {};
  return polynomial_of({found->constant, 0, found->square},
                       {found->linear, 0, 0});
}

/// What two first sizes say, each with the same three last ones.
std::optional<Polynomial> fit_two_symbols(
    std::span<const std::pair<Sizes, std::int64_t>> values) {
  Grid grid;
  for (const auto& [sizes, value] : values) grid[sizes[0]][sizes[1]] = value;
  for (auto low = grid.begin(); low != grid.end(); ++low) {
    for (auto high = std::next(low); high != grid.end(); ++high) {
      const auto lasts = in_both(low->second, high->second);
      if (lasts.size() < 3) continue;
      const Wide more = high->first - low->first;
      std::vector<std::pair<std::int64_t, Wide>> constant, first_coefficient;
      for (const std::int64_t last : lasts) {
        const Wide at_low = low->second.at(last);
        const Wide difference = high->second.at(last) - at_low;
        if (difference % more != 0) return {};
        first_coefficient.emplace_back(last, difference / more);
        constant.emplace_back(last, at_low - difference / more * low->first);
      }
      const auto of_constant = quadratic_through(constant);
      const auto of_first = quadratic_through(first_coefficient);
      if (!of_constant || !of_first) return {};
      return polynomial_of(*of_constant, *of_first);
    }
  }
  return {};
}

bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

/// Sizes that are no extent of the graph, each once.
class NewSizes {
 public:
  explicit NewSizes(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      for (const auto& value : node.values) {
        if (value) taken_.insert(value->shape.begin(), value->shape.end());
      }
    }
  }

  /// The smallest above that size of which `holds` does.
  std::int64_t above(std::int64_t size, const auto& holds) {
    std::int64_t n = std::max(size + 1, kSampleMin);
    while (!holds(n) || taken_.contains(n)) ++n;
    taken_.insert(n);
    return n;
  }

 private:
  std::set<std::int64_t> taken_;
};

/// The first input dimension that equals a size, or else a multiple of it.
/// `coefficient_of` gives the factor for a dimension's coefficients, and 0 if
/// the dimension also depends on something else.
template <typename CoefficientOf>
/// The first input dimension that equals a size, or else a multiple of it.
/// `coefficient_of` gives the factor for a dimension's coefficients, and 0 if
/// the dimension also depends on something else.
std::optional<SizeSource> source_of(const Graph& graph,
                                    const CoefficientOf& coefficient_of) {
  const SymbolicShapes& symbolic_shapes = graph.symbolic_shapes;
  std::optional<SizeSource> multiple;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind == NodeKind::call || node.values.empty() || !node.values[0]) {
      continue;
    }
    const auto& shape = node.values[0]->shape;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      const auto found = symbolic_shapes.coefficients.find(
          "/nodes/" + std::to_string(i) + "/values/0/shape/" +
          std::to_string(dim));
      if (found == symbolic_shapes.coefficients.end() ||
          coefficient_of(found->second) == 0 ||
          shape[dim] != found->second.at(symbolic_shapes.sizes)) {
        continue;
      }
      const SizeSource source{node.name, static_cast<int>(dim),
                              coefficient_of(found->second)};
      if (source.divisor == 1) return source;
      if (!multiple) multiple = source;
    }
  }
  return multiple;
}

}  // namespace

std::string sizes_text(const Sizes& sizes) {
  std::string text = sizes.size() == 1 ? "the size " : "the sizes ";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : " and ") + std::to_string(sizes[i]);
  }
  return text;
}

std::int64_t Coefficients::at(const Sizes& sizes) const {
  return sizes.empty() ? 0 : static_cast<std::int64_t>(wide_at(*this, sizes));
}

bool Coefficients::uses(std::size_t symbol, std::size_t symbols) const {
  const std::int64_t own = symbol == 0 ? first : second;
  const bool is_last = symbol + 1 == symbols;
  return own != 0 || product != 0 || square_product != 0 ||
         (is_last && square != 0);
}

std::int64_t Coefficients::only(std::size_t symbol, std::size_t symbols) const {
  for (std::size_t other = 0; other < symbols; ++other) {
    if (other != symbol && uses(other, symbols)) return 0;
  }
  if (product != 0 || square != 0 || square_product != 0) return 0;
  return symbol == 0 ? first : second;
}

std::vector<std::int64_t> list_of(const Coefficients& rates,
                                  std::size_t symbols) {
  std::vector<std::int64_t> list = {rates.first, rates.square};
  if (symbols > 1) {
    list = {rates.first, rates.second, rates.product, rates.square,
            rates.square_product};
  }
  const std::size_t least = symbols > 1 ? 3 : 1;
  while (list.size() > least && list.back() == 0) list.pop_back();
  return list;
}

std::optional<Coefficients> coefficients_of(
    const std::vector<std::int64_t>& list, std::size_t symbols) {
  const std::size_t least = symbols > 1 ? 3 : 1, most = symbols > 1 ? 5 : 2;
  if (list.size() < least || list.size() > most) return {};
  const auto at = [&](std::size_t i) { return i < list.size() ? list[i] : 0; };
  if (symbols == 1) return Coefficients{.first = at(0), .square = at(1)};
  return Coefficients{at(0), at(1), at(2), at(3), at(4)};
}

std::size_t samples_min(std::size_t symbols) { return symbols == 1 ? 4 : 7; }

std::optional<Polynomial> fit_polynomial(
    std::span<const std::pair<Sizes, std::int64_t>> values) {
  if (values.size() < 3) return {};
  const bool is_one = values.front().first.size() == 1;
  const auto found = is_one ? fit_one_symbol(values) : fit_two_symbols(values);
  if (!found) return {};
  for (const auto& [at, there] : values) {
    if (there != found->constant + wide_at(found->coefficients, at)) return {};
  }
  return found;
}

Result<SymbolicShapes> fit_symbolic_shapes(const std::map<Sizes, Graph>& graphs,
                                           const Sizes& sizes) {
  SymbolicShapes symbolic_shapes{sizes, {}};
  std::vector<Json> values;
  values.reserve(graphs.size());
  Samples samples;
  for (const auto& [at, graph] : graphs) {
    values.push_back(graph_to_value(graph));
    samples.emplace_back(at, &values.back());
  }
  const auto compared =
      Comparison(values.front(), symbolic_shapes).compare(samples, "");
  if (!compared) return std::unexpected(compared.error());
  return symbolic_shapes;
}

std::set<std::pair<std::string, std::size_t>> symbolic_arguments(
    const Graph& graph) {
  std::set<std::pair<std::string, std::size_t>> symbolic;
  if (!graph.symbolic_shapes.is_symbolic()) return symbolic;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (std::size_t j = 0; j < node.args.size(); ++j) {
      const auto pointer = Json::json_pointer("/nodes") / i / "args" / j;
      if (graph.symbolic_shapes.coefficients.contains(pointer.to_string())) {
        symbolic.emplace(node.name, j);
      }
    }
  }
  return symbolic;
}

Result<Graph> graph_at(const Graph& graph, const Sizes& sizes) {
  if (graph.symbolic_shapes.sizes.empty()) return graph;
  Json value = graph_to_value(graph);
  for (const auto& [pointer, coefficients] :
       graph.symbolic_shapes.coefficients) {
    Json& number = value.at(Json::json_pointer(pointer));
    const Wide there = number.get<std::int64_t>() +
                       wide_at(coefficients, sizes) -
                       wide_at(coefficients, graph.symbolic_shapes.sizes);
    if (!fits(there)) {
      return fail(ErrorCode::wrong_input,
                  "at " + sizes_text(sizes) +
                      " a number in it does not fit in 64 bits");
    }
    number = static_cast<std::int64_t>(there);
  }
  value["symbol"]["size"] = sizes_to_value(sizes);
  return graph_from_value(value);
}

std::vector<Sizes> sample_sizes(const Graph& graph) {
  NewSizes sizes(graph);
  const Sizes& own = graph.symbolic_shapes.sizes;
  if (own.empty()) return {};
  std::vector<std::int64_t> p, q;
  for (int i = 0; i < 4; ++i) p.push_back(sizes.above(own[0], is_prime));
  if (own.size() == 1) return {{p[0]}, {p[1]}, {p[2]}, {p[3]}};
  for (int i = 0; i < 4; ++i) q.push_back(sizes.above(own[1], is_prime));
  return {{p[0], q[0]}, {p[0], q[1]}, {p[0], q[2]}, {p[1], q[0]},
          {p[1], q[1]}, {p[1], q[2]}, {p[2], q[3]}};
}

std::vector<Sizes> sizes_to_capture(const Graph& graph) {
  NewSizes sizes(graph);
  const Sizes& own = graph.symbolic_shapes.sizes;
  if (own.empty()) return {};
  const auto polynomial_of = [](std::int64_t much) {
    return [much](std::int64_t n) { return n % much == 0; };
  };
  const std::int64_t far = 2 * std::max(own.back(), kSampleMin);
  const std::int64_t p = sizes.above(own[0], is_prime);
  if (own.size() == 1) {
    const std::int64_t next = sizes.above(own[0], is_prime);
    const std::int64_t third = sizes.above(own[0], is_prime);
    return {{p}, {next}, {third}, {sizes.above(far, polynomial_of(240))}};
  }
  const std::int64_t even = sizes.above(own[0], polynomial_of(60));
  const std::int64_t q = sizes.above(own[1], is_prime);
  const std::int64_t next = sizes.above(own[1], is_prime);
  const std::int64_t third = sizes.above(own[1], polynomial_of(72));
  const std::int64_t last = sizes.above(far, polynomial_of(240));
  const std::int64_t first =
      sizes.above(std::max(2 * own[0], last), polynomial_of(6));
  return {{p, q},       {p, next},     {p, third},   {even, q},
          {even, next}, {even, third}, {first, last}};
}

Result<Graph> hint_graph(const Graph& graph) {
  const auto last = graph_at(graph, sample_sizes(graph).back());
  if (!last) return last;
  return graph_at(graph, sample_sizes(*last).front());
}

std::vector<Sizes> judged_sizes(const Sizes& sizes) {
  if (sizes.empty()) return {};
  const std::int64_t prime = sizes[0] == 13 ? 11 : 13;
  // What a kernel leaves over of primes' squares is the same for all of them.
  const auto twice = [](std::int64_t size) { return (size / 12 + 1) * 24; };
  const std::int64_t longer = twice(std::max(sizes.back(), kSampleMin));
  if (sizes.size() == 1) return {{1}, {prime}, {longer}};
  // None has a pair whose sizes could be each other's, but for both being 1.
  const std::int64_t more = twice(sizes[0]);
  return {{1, 1},
          {1, 17},
          {prime, 1},
          {prime, 8},
          {more, longer == more ? longer + 24 : longer}};
}

Result<std::vector<SizeSource>> size_sources(const Graph& graph) {
  const SymbolicShapes& symbolic_shapes = graph.symbolic_shapes;
  std::vector<SizeSource> sources;
  const std::size_t symbols = symbolic_shapes.sizes.size();
  const auto any = [&](const auto& holds) {
    return std::ranges::any_of(
        symbolic_shapes.coefficients,
        [&](const auto& entry) { return holds(entry.second); });
  };
  const bool is_product =
      symbolic_shapes.is_symbolic() &&
      !any([](const Coefficients& coefficients) {
        return coefficients != Coefficients{.product = coefficients.product};
      });
  for (std::size_t i = 0; i < symbols; ++i) {
    const bool is_free =
        is_product ? i == 1 : !any([&](const Coefficients& coefficients) {
          return coefficients.uses(i, symbols);
        });
    if (is_free && symbolic_shapes.is_symbolic()) {
      sources.emplace_back();
      continue;
    }
    const auto source = source_of(graph, [&](const Coefficients& coefficients) {
      return is_product ? coefficients.product : coefficients.only(i, symbols);
    });
    if (!source) {
      return fail(ErrorCode::wrong_input,
                  std::string("none of its inputs has the ") +
                      (i == 0 ? "batch" : "second size") + " as a dimension");
    }
    sources.push_back(*source);
  }
  return sources;
}

}  // namespace weft
