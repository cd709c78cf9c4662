#include "compiler/graph/operator_facts.hpp"

#include <algorithm>
#include <array>

namespace weft {

namespace {

constexpr auto kSplits = std::to_array<std::string_view>(
    {"chunk", "split", "split_with_sizes", "tensor_split", "unbind"});

constexpr auto kViews = std::to_array<std::string_view>(
    {"alias",        "as_strided",    "detach",    "diagonal", "expand",
     "expand_as",    "lift_fresh",    "movedim",   "narrow",   "permute",
     "select",       "slice",         "squeeze",   "swapaxes", "t",
     "transpose",    "unfold",        "unsqueeze", "view",     "view_as",
     "_unsafe_view", "_reshape_alias"});

constexpr auto kCopies = std::to_array<std::string_view>(
    {"clone", "contiguous", "copy", "lift_fresh_copy"});

constexpr auto kFills = std::to_array<std::string_view>(
    {"arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye",
     "full", "full_like", "linspace", "new_empty", "new_full", "new_ones",
     "new_zeros", "ones", "ones_like", "scalar_tensor", "zeros", "zeros_like"});

constexpr auto kProducts = std::to_array<std::string_view>(
    {"addbmm", "addmm", "addmv", "baddbmm", "bmm", "convolution", "dot",
     "einsum", "linear", "matmul", "mm", "mv"});

// The attention and recurrent operators draw when their dropout is not zero.
constexpr auto kRandom =
    std::to_array<std::string_view>({"alpha_dropout",
                                     "bernoulli",
                                     "binomial",
                                     "cauchy",
                                     "dropout",
                                     "exponential",
                                     "feature_alpha_dropout",
                                     "feature_dropout",
                                     "fractional_max_pool2d",
                                     "fractional_max_pool3d",
                                     "geometric",
                                     "gru",
                                     "log_normal",
                                     "lstm",
                                     "multinomial",
                                     "native_dropout",
                                     "normal",
                                     "normal_functional",
                                     "poisson",
                                     "rand",
                                     "rand_like",
                                     "randint",
                                     "randint_like",
                                     "randn",
                                     "randn_like",
                                     "random",
                                     "randperm",
                                     "rnn_relu",
                                     "rnn_tanh",
                                     "rrelu",
                                     "rrelu_with_noise",
                                     "rrelu_with_noise_functional",
                                     "scaled_dot_product_attention",
                                     "uniform"});

bool contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool strip_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string_view operator_name(std::string_view target) {
  const auto first = target.find('.');
  if (first == std::string_view::npos) return target;
  const auto name = target.substr(first + 1);
  return name.substr(0, name.find('.'));
}

bool is_view(std::string_view target) {
  return contains(kViews, operator_name(target)) || is_split(target);
}

bool is_split(std::string_view target) {
  return contains(kSplits, operator_name(target));
}

bool is_copy(std::string_view target) {
  return contains(kCopies, operator_name(target));
}

bool is_fill(std::string_view target) {
  return contains(kFills, operator_name(target));
}

bool is_product(std::string_view target) {
  return contains(kProducts, operator_name(target));
}

bool is_random(std::string_view target) {
  auto name = operator_name(target);
  if (name.ends_with('_')) name.remove_suffix(1);
  return contains(kRandom, name) || name.starts_with("_scaled_dot_product");
}

bool is_impure(std::string_view target) {
  const auto name = operator_name(target);
  return is_random(target) || name.ends_with('_') ||
         name.starts_with("_assert") || name.starts_with("sym_constrain");
}

std::string spoken_name(std::string_view target) {
  auto name = operator_name(target);
  if (name.find("batch_norm") != std::string_view::npos) return "batch_norm";
  if (!strip_prefix(name, "native_")) strip_prefix(name, "_");
  return std::string(name);
}

}  // namespace weft
