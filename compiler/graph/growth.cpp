#include "compiler/graph/growth.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/graph/graph_json.hpp"

namespace weft {
namespace {

using Samples = std::vector<std::pair<Sizes, const Json*>>;

/// "/nodes/3/args/1" of a node that has a name: "view_2 (args/1)".
std::string place_text(const Json& graph, const std::string& pointer) {
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
  Comparison(const Json& graph, Growth& growth)
      : graph_(graph), growth_(growth) {}

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
    const auto found = multiple_of_sizes(values);
    if (!found) return misfit(samples, pointer);
    growth_.per[pointer] = found->per;
    return {};
  }

  std::unexpected<Error> misfit(const Samples& samples,
                                const std::string& pointer) const {
    std::string text = place_text(graph_, pointer);
    const char* before = ": ";
    for (const auto& [sizes, value] : samples) {
      std::string one =
          value->dump(-1, ' ', false, Json::error_handler_t::replace);
      if (one.size() > 60) one = one.substr(0, 60) + "…";
      text += before + one + " at " + sizes_text(sizes);
      before = ", ";
    }
    const bool is_one = samples.front().first.size() == 1;
    return fail(ErrorCode::wrong_input,
                text + ": that is no number plus a multiple of the " +
                    (is_one ? "size" : "sizes and of their product"));
  }

  const Json& graph_;
  Growth& growth_;
};

/// Places in a list of values: two that differ in the first size alone, and of
/// two symbols two in the second alone, and one in both.
struct Corners {
  std::size_t at = 0, first = 0, second = 0, both = 0;
};

std::optional<Corners> corners_of(
    std::span<const std::pair<Sizes, std::int64_t>> values) {
  const auto place = [&](const Sizes& sizes) {
    const auto found = std::ranges::find(
        values, sizes, &std::pair<Sizes, std::int64_t>::first);
    return static_cast<std::size_t>(found - values.begin());
  };
  for (std::size_t at = 0; at < values.size(); ++at) {
    const Sizes& sizes = values[at].first;
    for (std::size_t other = at + 1; other < values.size(); ++other) {
      const Sizes& both = values[other].first;
      if (both[0] == sizes[0]) continue;
      if (sizes.size() == 1) return Corners{at, other};
      if (both[1] == sizes[1]) continue;
      const Corners found{at, place({both[0], sizes[1]}),
                          place({sizes[0], both[1]}), other};
      if (std::max(found.first, found.second) < values.size()) return found;
    }
  }
  return std::nullopt;
}

bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

/// The first dimension of an input that is a size, or else a multiple of it:
/// `per` says of how a dimension grows, how many times the size it is, and 0 of
/// one that grows otherwise.
template <typename Per>
std::optional<SizeSource> source_of(const Graph& graph, const Per& per) {
  const Growth& growth = graph.growth;
  std::optional<SizeSource> multiple;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind == NodeKind::call || node.values.empty() || !node.values[0]) {
      continue;
    }
    const auto& shape = node.values[0]->shape;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      const auto found =
          growth.per.find("/nodes/" + std::to_string(i) + "/values/0/shape/" +
                          std::to_string(dim));
      if (found == growth.per.end() || per(found->second) == 0 ||
          shape[dim] != found->second.at(growth.sizes)) {
        continue;
      }
      const SizeSource source{node.name, static_cast<int>(dim),
                              per(found->second)};
      if (source.per == 1) return source;
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

std::int64_t Rates::at(const Sizes& sizes) const {
  if (sizes.empty()) return 0;
  if (sizes.size() == 1) return first * sizes[0];
  return first * sizes[0] + second * sizes[1] + product * sizes[0] * sizes[1];
}

std::size_t samples_min(std::size_t symbols) { return symbols == 1 ? 3 : 5; }

std::optional<Multiple> multiple_of_sizes(
    std::span<const std::pair<Sizes, std::int64_t>> values) {
  const auto corners = corners_of(values);
  if (!corners) return std::nullopt;
  const auto& [sizes, value] = values[corners->at];
  Multiple found;
  const std::int64_t more = values[corners->first].first[0] - sizes[0];
  found.per.first = (values[corners->first].second - value) / more;
  if (sizes.size() > 1) {
    const std::int64_t longer = values[corners->second].first[1] - sizes[1];
    found.per.second = (values[corners->second].second - value) / longer;
    found.per.product =
        (values[corners->both].second - values[corners->first].second -
         values[corners->second].second + value) /
        (more * longer);
    // The differences are those beside this corner, where the other is not 0.
    found.per.first -= found.per.product * sizes[1];
    found.per.second -= found.per.product * sizes[0];
  }
  found.rest = value - found.per.at(sizes);
  for (const auto& [at, there] : values) {
    if (there != found.rest + found.per.at(at)) return std::nullopt;
  }
  return found;
}

Result<Growth> growth_of(const std::map<Sizes, Graph>& graphs,
                         const Sizes& sizes) {
  Growth growth{sizes, {}};
  std::vector<Json> values;
  values.reserve(graphs.size());
  Samples samples;
  for (const auto& [at, graph] : graphs) {
    values.push_back(graph_to_value(graph));
    samples.emplace_back(at, &values.back());
  }
  const auto compared = Comparison(values.front(), growth).compare(samples, "");
  if (!compared) return std::unexpected(compared.error());
  return growth;
}

std::set<std::pair<std::string, std::size_t>> growing_arguments(
    const Graph& graph) {
  std::set<std::pair<std::string, std::size_t>> growing;
  if (!graph.growth.grows()) return growing;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (std::size_t j = 0; j < node.args.size(); ++j) {
      const auto pointer = Json::json_pointer("/nodes") / i / "args" / j;
      if (graph.growth.per.contains(pointer.to_string())) {
        growing.emplace(node.name, j);
      }
    }
  }
  return growing;
}

Result<Graph> graph_at(const Graph& graph, const Sizes& sizes) {
  if (graph.growth.sizes.empty()) return graph;
  Json value = graph_to_value(graph);
  for (const auto& [pointer, per] : graph.growth.per) {
    Json& number = value.at(Json::json_pointer(pointer));
    number =
        number.get<std::int64_t>() + per.at(sizes) - per.at(graph.growth.sizes);
  }
  value["symbol"]["size"] = sizes_to_value(sizes);
  return graph_from_value(value);
}

std::vector<Sizes> sample_sizes(const Graph& graph) {
  std::set<std::int64_t> taken;
  for (const Node& node : graph.nodes) {
    for (const auto& value : node.values) {
      if (value) taken.insert(value->shape.begin(), value->shape.end());
    }
  }
  // Longer than a vector: shorter loops are printed as what they are alone.
  constexpr std::int64_t kSizeMin = 31;
  std::vector<Sizes> primes;
  for (const std::int64_t size : graph.growth.sizes) {
    Sizes& own = primes.emplace_back();
    for (std::int64_t n = std::max(size, kSizeMin) + 1; own.size() < 3; ++n) {
      if (is_prime(n) && taken.insert(n).second) own.push_back(n);
    }
  }
  if (primes.empty()) return {};
  const Sizes& p = primes[0];
  if (primes.size() == 1) return {{p[0]}, {p[1]}, {p[2]}};
  const Sizes& q = primes[1];
  return {{p[0], q[0]}, {p[0], q[1]}, {p[1], q[0]}, {p[1], q[1]}, {p[2], q[2]}};
}

Result<Graph> usual_graph(const Graph& graph) {
  const auto last = graph_at(graph, sample_sizes(graph).back());
  if (!last) return last;
  return graph_at(graph, sample_sizes(*last).front());
}

std::vector<Sizes> judged_sizes(const Sizes& sizes) {
  if (sizes.empty()) return {};
  const std::int64_t prime = sizes[0] == 13 ? 11 : 13;
  if (sizes.size() == 1) {
    return {{1}, {prime}, {2 * std::max<std::int64_t>(sizes[0], 32) + 3}};
  }
  // None has a pair whose sizes could be each other's, but for both being 1.
  const std::int64_t more = 2 * sizes[0] + 3;
  const std::int64_t longer = 2 * std::max<std::int64_t>(sizes[1], 32) + 3;
  return {{1, 1},
          {1, 17},
          {prime, 1},
          {prime, 7},
          {more, longer == more ? longer + 2 : longer}};
}

Result<std::vector<SizeSource>> size_sources(const Graph& graph) {
  const Growth& growth = graph.growth;
  std::vector<SizeSource> sources;
  Rates all;  // by what anything grows
  for (const auto& [pointer, per] : growth.per) {
    all.first |= per.first;
    all.second |= per.second;
    all.product |= per.product;
  }
  const bool is_product = all.first == 0 && all.second == 0;
  for (std::size_t i = 0; i < growth.sizes.size(); ++i) {
    const std::int64_t alone = i == 0 ? all.first : all.second;
    const bool is_free = is_product ? i == 1 : alone == 0 && all.product == 0;
    if (is_free && growth.grows()) {
      sources.emplace_back();
      continue;
    }
    const auto source = source_of(graph, [&](const Rates& per) {
      if (is_product) return per.product;
      const bool is_alone =
          per.product == 0 && (i == 0 ? per.second : per.first) == 0;
      return is_alone ? i == 0 ? per.first : per.second : 0;
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
