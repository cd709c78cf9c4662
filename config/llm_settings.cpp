#include "config/llm_settings.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace weft {
namespace {

using Kind = Setting::Kind;

const std::string kRoot = "llm.";

/// Of a provider's section, what says where a key goes or may be seen.
constexpr std::string_view kReachNames[] = {
    "base_url", "key_env", "key_file", "ca_file", "plain_http", "headers."};

/// Headers that carry secrets: those are named by key_env or key_file.
constexpr std::string_view kSecretHeaders[] = {
    "authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  return out;
}

/// One section's settings, read one by one; the first error stays.
class Section {
 public:
  Section(const Settings& settings, std::string name)
      : settings_(settings), prefix_(kRoot + std::move(name) + ".") {}

  const Setting* find(std::string_view name) const {
    const auto found = settings_.find(prefix_ + std::string(name));
    return found == settings_.end() ? nullptr : &found->second;
  }

  std::string text(std::string_view name, std::string usual = "") {
    const Setting* setting = find(name);
    if (setting == nullptr) return usual;
    if (setting->kind != Kind::text) reject(name, "is a text, in quotes");
    return setting->values.empty() ? "" : setting->values.front();
  }

  double number(std::string_view name, double usual, double low, double high) {
    const Setting* setting = find(name);
    if (setting == nullptr) return usual;
    const std::string value = setting->shown();
    double parsed = 0;
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), parsed);
    const bool is_number = error == std::errc() &&
                           end == value.data() + value.size() &&
                           std::isfinite(parsed);
    if (!is_number || parsed < low || parsed > high) {
      reject(name, "is a number from " + shown(low) + " to " + shown(high) +
                       ", not '" + value + "'");
      return usual;
    }
    return parsed;
  }

  std::int64_t whole(std::string_view name, std::int64_t usual,
                     std::int64_t low, std::int64_t high) {
    const double value =
        number(name, static_cast<double>(usual), static_cast<double>(low),
               static_cast<double>(high));
    if (value != std::floor(value)) reject(name, "is a whole number");
    return static_cast<std::int64_t>(value);
  }

  bool flag(std::string_view name, bool usual) {
    const Setting* setting = find(name);
    if (setting == nullptr) return usual;
    const std::string value = setting->shown();
    if (value == "true" || value == "1") return true;
    if (value != "false" && value != "0") reject(name, "is true or false");
    return false;
  }

  std::vector<std::string> list(std::string_view name) {
    const Setting* setting = find(name);
    if (setting == nullptr) return {};
    if (setting->kind == Kind::list) return setting->values;
    std::vector<std::string> parts;
    std::string rest = setting->shown();
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      parts.push_back(rest.substr(0, comma));
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    return parts;
  }

  /// The settings below `name`, such as headers, without that.
  std::map<std::string, std::string> below(const std::string& name) const {
    std::map<std::string, std::string> found;
    const std::string start = prefix_ + name + ".";
    for (auto at = settings_.lower_bound(start);
         at != settings_.end() && at->first.starts_with(start); ++at) {
      found[at->first.substr(start.size())] = at->second.shown();
    }
    return found;
  }

  void reject(std::string_view name, const std::string& why) {
    if (!error_.message.empty()) return;
    const Setting* setting = find(name);
    const std::string where = setting == nullptr ? "" : setting->origin + ": ";
    error_ = {ErrorCode::wrong_input,
              where + prefix_ + std::string(name) + " " + why};
  }

  const Error& error() const { return error_; }

 private:
  static std::string shown(double value) {
    char text[64];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  }

  const Settings& settings_;
  std::string prefix_;
  Error error_;
};

constexpr double kUsdMax = 1e6;

std::int64_t micro(double usd) { return std::llround(usd * 1e6); }

/// Where a price is not told, the dearer assumption: a budget must hold.
LlmPrices read_prices(Section& section, const std::string& dialect) {
  // Anthropic's for five minutes; where others charge it, it is the input's.
  const double write_factor = dialect == "anthropic" ? 1.25 : 1.0;
  const auto usd = [&](const char* name, double usual) {
    return section.number(name, usual, 0, kUsdMax);
  };
  const double input = usd("prices.input", 0);
  const double output = usd("prices.output", 0);
  LlmPrices prices;
  prices.input = micro(input);
  prices.output = micro(output);
  prices.cached = micro(usd("prices.cached", input));
  prices.cache_written =
      micro(usd("prices.cache_written", input * write_factor));
  prices.reasoning = micro(usd("prices.reasoning", output));
  return prices;
}

/// Calls of a batch wait on the provider's side: none needs a connection.
constexpr int kBatchCalls = 1'000;

LlmLimits read_limits(Section& section, bool is_batch) {
  constexpr std::int64_t kCallsMax = 10'000;
  constexpr std::int64_t kRateMax = 1'000'000'000'000;
  /// 2.5 % of a minute: as much of the rate is given up for it.
  constexpr std::int64_t kGraceMs = 1'500;
  LlmLimits limits;
  limits.calls_at_once = static_cast<int>(section.whole(
      "limits.calls_at_once", is_batch ? kBatchCalls : limits.calls_at_once, 1,
      kCallsMax));
  limits.requests_per_minute =
      section.whole("limits.requests_per_minute", 0, 0, kRateMax);
  limits.tokens_per_minute =
      section.whole("limits.tokens_per_minute", 0, 0, kRateMax);
  limits.grace_ms = kGraceMs;
  return limits;
}

LlmProvider read_provider(Section& section, const std::string& name) {
  constexpr std::int64_t kTokensMax = 100'000'000;
  constexpr std::int64_t kDayMs = 86'400'000;
  LlmProvider provider;
  provider.name = name;
  provider.dialect = section.text("dialect", "openai");
  if (provider.dialect != "openai" && provider.dialect != "anthropic" &&
      provider.dialect != "responses") {
    section.reject("dialect", "is openai, anthropic or responses, not '" +
                                  provider.dialect + "'");
  }
  provider.model = section.text("model");
  if (provider.model.empty()) {
    section.reject("model", "lacks: name the model as its provider does");
  }
  const bool is_batch = section.flag("batch", false);
  provider.prices = read_prices(section, provider.dialect);
  provider.limits = read_limits(section, is_batch);
  provider.max_output_tokens = section.whole(
      "max_output_tokens", provider.max_output_tokens, 1, kTokensMax);
  provider.context_tokens = section.whole("context_tokens", 0, 0, kTokensMax);
  provider.temperature = section.number("temperature", -1, 0, 2);
  provider.effort = section.text("effort");
  provider.wall_ms = section.whole(
      "wall_ms", is_batch ? kBatchWallMs : provider.wall_ms,
      is_batch ? kBatchWallMs : 1, is_batch ? kBatchWallMs : kDayMs);
  provider.fallbacks = section.list("fallbacks");
  return provider;
}

void check_url(Section& section, const std::string& url) {
  if (!url.starts_with("https://") && !url.starts_with("http://")) {
    section.reject("base_url", "begins with https:// or http://");
  } else if (url.find('@') != std::string::npos) {
    section.reject("base_url",
                   "holds no name or password: a key is named by key_env or "
                   "key_file");
  } else if (url.find_first_of("?# \t\r\n") != std::string::npos) {
    section.reject("base_url", "has no blank, '?' or '#'");
  }
}

void check_headers(Section& section,
                   const std::map<std::string, std::string>& headers) {
  for (const auto& [name, value] : headers) {
    if (std::ranges::find(kSecretHeaders, lower(name)) !=
        std::end(kSecretHeaders)) {
      section.reject("headers." + name,
                     "would hold a secret: name the key's place with key_env "
                     "or key_file");
    }
    if (value.find_first_of("\r\n") != std::string::npos ||
        name.find_first_of(": \r\n") != std::string::npos) {
      section.reject("headers." + name, "is a header's name, and one line");
    }
  }
}

std::string expand_home(const std::string& path,
                        const Environment& environment) {
  if (!path.starts_with("~/")) return path;
  return environment("HOME") + path.substr(1);
}

/// Where the provider is, and its key.
LlmEndpoint read_reach(Section& section, LlmProvider provider,
                       const Environment& environment) {
  constexpr std::int64_t kDayMs = 86'400'000;
  const bool anthropic = provider.dialect == "anthropic";
  const std::string usual_url =
      anthropic ? "https://api.anthropic.com" : "https://api.openai.com/v1";
  LlmEndpoint endpoint;
  endpoint.has_prices = !section.below("prices").empty();
  endpoint.base_url = section.text("base_url", usual_url);
  check_url(section, endpoint.base_url);
  while (endpoint.base_url.ends_with('/')) endpoint.base_url.pop_back();
  endpoint.key_env = section.text("key_env");
  endpoint.key_file = expand_home(section.text("key_file"), environment);
  if (!endpoint.key_env.empty() && !endpoint.key_file.empty()) {
    section.reject("key_file", "and key_env are both set: the key is in one");
  }
  if (endpoint.key_env.empty() && endpoint.key_file.empty() &&
      endpoint.base_url == usual_url) {
    endpoint.key_env = anthropic ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY";
  }
  endpoint.ca_file = expand_home(section.text("ca_file"), environment);
  endpoint.plain_http = section.flag("plain_http", false);
  endpoint.max_tokens_field = section.text("max_tokens_field");
  endpoint.headers = section.below("headers");
  check_headers(section, endpoint.headers);
  endpoint.connect_ms =
      section.whole("connect_ms", endpoint.connect_ms, 1, kDayMs);
  endpoint.idle_ms = section.whole("idle_ms", endpoint.idle_ms, 1, kDayMs);
  endpoint.batch = section.flag("batch", false);
  endpoint.batch_wait_s =
      section.whole("batch_wait_s", endpoint.batch_wait_s, 0, kDayMs / 1000);
  endpoint.batch_poll_ms =
      section.whole("batch_poll_ms", endpoint.batch_poll_ms, 100, kDayMs);
  provider.native_samples =
      section.flag("native_samples", endpoint.base_url == usual_url &&
                                         provider.dialect == "openai");
  endpoint.provider = std::move(provider);
  return endpoint;
}

/// A weft.toml that came with somebody's code must not send the user's keys
/// elsewhere.
void check_trust(Section& section, const Settings& settings,
                 const LlmEndpoint& endpoint) {
  if (endpoint.key_env.empty() && endpoint.key_file.empty()) return;
  const std::string prefix = kRoot + endpoint.provider.name + ".";
  for (auto at = settings.lower_bound(prefix);
       at != settings.end() && at->first.starts_with(prefix); ++at) {
    const std::string name = at->first.substr(prefix.size());
    const bool reaches =
        std::ranges::any_of(kReachNames, [&](std::string_view reach) {
          return reach.ends_with('.') ? name.starts_with(reach) : name == reach;
        });
    if (reaches && at->second.from_folder) {
      section.reject(name,
                     "says where a key goes, which the current folder's file "
                     "may not: move it to ~/.config/weft/config.toml, or name "
                     "the file with --config");
    }
  }
}

const LlmSettingSpec* find_spec(std::string_view name) {
  if (name.starts_with("headers.")) name = "headers.*";
  for (const LlmSettingSpec& spec : llm_setting_specs()) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

/// "llm.mini.limits.calls_at_once" -> "mini"; checks that the rest is known.
Result<std::string> section_of(const std::string& name,
                               const Setting& setting) {
  const auto dot = name.find('.', kRoot.size());
  if (dot == std::string::npos) {
    return fail(ErrorCode::wrong_input,
                setting.origin + ": " + name +
                    " stands in no provider's section: those are [llm.NAME]");
  }
  if (find_spec(std::string_view(name).substr(dot + 1)) == nullptr) {
    std::string known;
    for (const LlmSettingSpec& spec : llm_setting_specs()) {
      known += (known.empty() ? "" : ", ") + std::string(spec.name);
    }
    return fail(ErrorCode::wrong_input,
                setting.origin + ": there is no " + name.substr(dot + 1) +
                    " of a provider; there are " + known);
  }
  return name.substr(kRoot.size(), dot - kRoot.size());
}

Result<std::set<std::string>> section_names(const Settings& settings) {
  std::set<std::string> names;
  for (auto at = settings.lower_bound(kRoot);
       at != settings.end() && at->first.starts_with(kRoot); ++at) {
    const auto name = section_of(at->first, at->second);
    if (!name) return std::unexpected(name.error());
    names.insert(*name);
  }
  return names;
}

Result<void> check_fallbacks(const std::vector<LlmEndpoint>& endpoints,
                             const Settings& settings) {
  for (const LlmEndpoint& endpoint : endpoints) {
    for (const std::string& name : endpoint.provider.fallbacks) {
      if (const auto found = find_endpoint(endpoints, name); !found) {
        const auto at =
            settings.find(kRoot + endpoint.provider.name + ".fallbacks");
        return fail(ErrorCode::wrong_input,
                    at->second.origin + ": " + found.error().message);
      }
    }
  }
  return {};
}

}  // namespace

const std::vector<LlmSettingSpec>& llm_setting_specs() {
  const auto shown = [](std::int64_t value) { return std::to_string(value); };
  static const LlmEndpoint usual;
  const LlmProvider& provider = usual.provider;
  static const std::vector<LlmSettingSpec> specs = {
      {"dialect", Kind::text, "openai",
       "protocol: openai (chat completions), anthropic (messages) or "
       "responses"},
      {"base_url", Kind::text, "the server of the dialect's maker",
       "where requests go"},
      {"model", Kind::text, "must be set", "name, as the provider calls it"},
      {"key_env", Kind::text,
       "OPENAI_API_KEY or ANTHROPIC_API_KEY for their makers' servers",
       "variable that has the key"},
      {"key_file", Kind::text, "", "file that has the key, instead"},
      {"ca_file", Kind::text, "the system's", "certificates to trust, PEM"},
      {"plain_http", Kind::boolean, "false",
       "a key may go over http to another machine"},
      {"max_output_tokens", Kind::integer, shown(provider.max_output_tokens),
       "limit of one reply"},
      {"max_tokens_field", Kind::text, "by the server",
       "name of that limit in a request"},
      {"context_tokens", Kind::integer, "not known",
       "limit of prompt and reply together"},
      {"temperature", Kind::number, "the provider's", "of sampling"},
      {"effort", Kind::text, "the provider's", "of reasoning"},
      {"native_samples", Kind::boolean, "true for OpenAI's server only",
       "one call can give several replies"},
      {"fallbacks", Kind::list, "",
       "providers that are asked in turn if this one fails"},
      {"connect_ms", Kind::integer, shown(usual.connect_ms),
       "limit of connecting"},
      {"idle_ms", Kind::integer, shown(usual.idle_ms),
       "limit of silence within a reply"},
      {"wall_ms", Kind::integer, shown(provider.wall_ms), "limit of one call"},
      {"batch", Kind::boolean, "false",
       "calls go through the provider's batch API: cheaper, within a day"},
      {"batch_wait_s", Kind::integer, shown(usual.batch_wait_s),
       "how long a run waits for a batch before it is suspended"},
      {"batch_poll_ms", Kind::integer, shown(usual.batch_poll_ms),
       "time between two looks at a batch"},
      {"headers.*", Kind::text, "", "sent with every call; must not be secret"},
      {"limits.calls_at_once", Kind::integer,
       shown(provider.limits.calls_at_once), "concurrent calls, at most"},
      {"limits.requests_per_minute", Kind::integer,
       shown(provider.limits.requests_per_minute),
       "0: as the server's headers say"},
      {"limits.tokens_per_minute", Kind::integer,
       shown(provider.limits.tokens_per_minute),
       "0: as the server's headers say"},
      {"prices.input", Kind::number, "0", "USD per million tokens"},
      {"prices.cached", Kind::number, "prices.input", "cached input"},
      {"prices.cache_written", Kind::number,
       "prices.input; anthropic: 1.25 times that", "input that is cached now"},
      {"prices.output", Kind::number, "0", "USD per million tokens"},
      {"prices.reasoning", Kind::number, "prices.output",
       "output that is not shown"},
  };
  return specs;
}

Result<std::vector<LlmEndpoint>> llm_endpoints(Settings& settings,
                                               const Environment& environment) {
  const auto names = section_names(settings);
  if (!names) return std::unexpected(names.error());
  std::vector<LlmEndpoint> endpoints;
  for (const std::string& name : *names) {
    for (const LlmSettingSpec& spec : llm_setting_specs()) {
      if (spec.name.ends_with('*')) continue;
      take_environment(settings, kRoot + name + "." + std::string(spec.name),
                       environment);
    }
    Section section(settings, name);
    LlmEndpoint endpoint =
        read_reach(section, read_provider(section, name), environment);
    check_trust(section, settings, endpoint);
    if (!section.error().message.empty()) {
      return std::unexpected(section.error());
    }
    endpoints.push_back(std::move(endpoint));
  }
  const auto fallbacks = check_fallbacks(endpoints, settings);
  if (!fallbacks) return std::unexpected(fallbacks.error());
  return endpoints;
}

Result<LlmEndpoint> find_endpoint(const std::vector<LlmEndpoint>& endpoints,
                                  std::string_view name) {
  std::string known;
  for (const LlmEndpoint& endpoint : endpoints) {
    if (endpoint.provider.name == name) return endpoint;
    known += (known.empty() ? "" : ", ") + endpoint.provider.name;
  }
  return fail(
      ErrorCode::wrong_input,
      "no language model is called '" + std::string(name) + "': " +
          (known.empty()
               ? "none is declared: write a section [llm." + std::string(name) +
                     "] into ~/.config/weft/config.toml "
                     "(docs/how-to/language-models.md says how)"
               : "declared are: " + known));
}

Result<std::vector<LlmProvider>> providers_of(
    const std::vector<LlmEndpoint>& endpoints, std::string_view name) {
  std::vector<LlmProvider> providers;
  std::vector<std::string> wanted = {std::string(name)};
  std::set<std::string> seen;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!seen.insert(wanted[i]).second) continue;
    const auto found = find_endpoint(endpoints, wanted[i]);
    if (!found) return std::unexpected(found.error());
    providers.push_back(found->provider);
    for (const std::string& next : found->provider.fallbacks) {
      wanted.push_back(next);
    }
  }
  return providers;
}

}  // namespace weft
