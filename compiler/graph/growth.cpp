#include "compiler/graph/growth.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/graph/graph_json.hpp"

namespace weft {
namespace {

using Samples = std::vector<std::pair<std::int64_t, const Json*>>;

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
    if (samples.size() < 2) return {};
    std::vector<std::pair<std::int64_t, std::int64_t>> values;
    for (const auto& [size, value] : samples) {
      values.emplace_back(size, value->get<std::int64_t>());
    }
    const auto found = multiple_of_size(values);
    if (!found) return misfit(samples, pointer);
    if (found->per != 0) growth_.per[pointer] = found->per;
    return {};
  }

  std::unexpected<Error> misfit(const Samples& samples,
                                const std::string& pointer) const {
    std::string text = place_text(graph_, pointer);
    for (const auto& [size, value] : samples) {
      std::string one =
          value->dump(-1, ' ', false, Json::error_handler_t::replace);
      if (one.size() > 60) one = one.substr(0, 60) + "…";
      text += (size == samples.front().first ? ": " : ", ") + one +
              " at the size " + std::to_string(size);
    }
    return fail(ErrorCode::wrong_input,
                text + ": that is no number plus a multiple of the size");
  }

  const Json& graph_;
  Growth& growth_;
};

}  // namespace

std::optional<Multiple> multiple_of_size(
    std::span<const std::pair<std::int64_t, std::int64_t>> values) {
  const auto& [size, value] = values[0];
  Multiple found;
  found.per = (values[1].second - value) / (values[1].first - size);
  found.rest = value - found.per * size;
  for (const auto& [at, there] : values) {
    if (there != found.rest + found.per * at) return std::nullopt;
  }
  return found;
}

Result<Growth> growth_of(const std::map<std::int64_t, Graph>& graphs,
                         std::int64_t size) {
  Growth growth{size, {}};
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

Result<Graph> graph_at(const Graph& graph, std::int64_t size) {
  if (graph.growth.size == 0) return graph;
  Json value = graph_to_value(graph);
  const std::int64_t more = size - graph.growth.size;
  for (const auto& [pointer, per] : graph.growth.per) {
    Json& number = value.at(Json::json_pointer(pointer));
    number = number.get<std::int64_t>() + per * more;
  }
  value["symbol"]["size"] = size;
  return graph_from_value(value);
}

std::vector<std::int64_t> sample_sizes(const Graph& graph) {
  const auto is_prime = [](std::int64_t n) {
    for (std::int64_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return true;
  };
  std::set<std::int64_t> taken;
  for (const Node& node : graph.nodes) {
    for (const auto& value : node.values) {
      if (value) taken.insert(value->shape.begin(), value->shape.end());
    }
  }
  // Longer than a vector: shorter loops are printed as what they are alone.
  constexpr std::int64_t kSizeMin = 31;
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = std::max(graph.growth.size, kSizeMin) + 1;
       sizes.size() < 3; ++n) {
    if (is_prime(n) && !taken.contains(n)) sizes.push_back(n);
  }
  return sizes;
}

std::vector<std::int64_t> judged_sizes(std::int64_t size) {
  return {1, size == 13 ? 11 : 13, 2 * std::max<std::int64_t>(size, 32) + 3};
}

Result<SizeSource> size_source(const Graph& graph) {
  std::optional<SizeSource> multiple;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind == NodeKind::call || node.values.empty() || !node.values[0]) {
      continue;
    }
    const auto& shape = node.values[0]->shape;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      const auto found =
          graph.growth.per.find("/nodes/" + std::to_string(i) +
                                "/values/0/shape/" + std::to_string(dim));
      if (found == graph.growth.per.end() ||
          shape[dim] != found->second * graph.growth.size) {
        continue;
      }
      const SizeSource source{node.name, static_cast<int>(dim), found->second};
      if (source.per == 1) return source;
      if (!multiple) multiple = source;
    }
  }
  if (multiple) return *multiple;
  return fail(ErrorCode::wrong_input,
              "none of its inputs has the batch as a dimension");
}

}  // namespace weft
