#include "runtime/llm/limits.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>
#include <string>

namespace weft {
namespace {

constexpr std::int64_t kSecondMs = 1'000;

/// No limit is waited for longer: what a server says beyond is nonsense.
constexpr double kResetMsMax = 400.0 * 24 * 3600 * 1000;

/// The number at the text's beginning, which is then taken off.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<std::int64_t> bounded(double ms) {
  if (ms > kResetMsMax) return std::nullopt;
  return static_cast<std::int64_t>(std::ceil(std::max(0.0, ms)));
}

/// "6m0s": Go's way to write a duration.
std::optional<std::int64_t> parse_duration_ms(std::string_view text) {
  double total_ms = 0;
  while (!text.empty()) {
    const auto value = take_number(text);
    if (!value || *value < 0) return std::nullopt;
    double unit_ms = 0;
    std::size_t letters = 1;
    if (text.starts_with("ms")) {
      unit_ms = 1;
      letters = 2;
    } else if (text.starts_with("us") || text.starts_with("ns")) {
      unit_ms = 1e-3;
      letters = 2;
    } else if (text.starts_with("s")) {
      unit_ms = kSecondMs;
    } else if (text.starts_with("m")) {
      unit_ms = 60.0 * kSecondMs;
    } else if (text.starts_with("h")) {
      unit_ms = 3600.0 * kSecondMs;
    } else if (text.starts_with("d")) {
      unit_ms = 86400.0 * kSecondMs;
    } else {
      return std::nullopt;
    }
    text.remove_prefix(letters);
    total_ms += *value * unit_ms;
  }
  return bounded(total_ms);
}

/// "2026-01-27T12:00:30Z", with or without fractions, in any zone.
std::optional<std::int64_t> parse_rfc3339_ms(std::string_view text) {
  const std::string copy(text);
  std::tm parts{};
  const char* rest = strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  double fraction = 0;
  if (*rest == '.') {
    std::string_view digits(rest);
    const auto value = take_number(digits);
    if (!value) return std::nullopt;
    fraction = *value;
    rest = digits.data();
  }
  std::int64_t zone_s = 0;
  if (*rest == '+' || *rest == '-') {
    int hours = 0;
    int minutes = 0;
    if (std::sscanf(rest + 1, "%2d:%2d", &hours, &minutes) != 2) {
      return std::nullopt;
    }
    zone_s = (*rest == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
  }
  const std::int64_t seconds = timegm(&parts) - zone_s;
  return seconds * kSecondMs + std::llround(fraction * kSecondMs);
}

const std::string* find(const HttpHeaders& headers, const std::string& name) {
  const auto found = headers.find(name);
  return found == headers.end() || found->second.empty() ? nullptr
                                                         : &found->second;
}

std::int64_t count_in(const HttpHeaders& headers, const std::string& name) {
  const std::string* text = find(headers, name);
  if (text == nullptr) return -1;
  std::string_view rest = *text;
  const auto value = take_number(rest);
  constexpr double kCountMax = 1e15;
  if (!value || !rest.empty() || *value < 0 || *value > kCountMax) return -1;
  return static_cast<std::int64_t>(*value);
}

std::int64_t reset_in(const HttpHeaders& headers, const std::string& name,
                      std::int64_t now_ms) {
  const std::string* text = find(headers, name);
  return text == nullptr ? -1 : parse_reset_ms(*text, now_ms).value_or(-1);
}

/// The server's own clock, where it tells it.
std::int64_t now_of(const HttpHeaders& headers, std::int64_t now_ms) {
  const std::string* date = find(headers, "date");
  if (date == nullptr) return now_ms;
  const std::time_t date_s = curl_getdate(date->c_str(), nullptr);
  return date_s < 0 ? now_ms : static_cast<std::int64_t>(date_s) * kSecondMs;
}

/// One kind of limit, by the beginnings of its three headers' names. What an
/// earlier spelling told stays.
void take_limit(const HttpHeaders& headers, std::int64_t now_ms,
                const std::string& limit, const std::string& remaining,
                const std::string& reset, std::int64_t (&limits)[3]) {
  if (limits[0] < 0) limits[0] = count_in(headers, limit);
  if (limits[1] < 0) limits[1] = count_in(headers, remaining);
  if (limits[2] < 0) limits[2] = reset_in(headers, reset, now_ms);
}

void take_openai(const HttpHeaders& headers, std::int64_t now_ms,
                 const std::string& what, std::int64_t (&limits)[3]) {
  const std::string prefix = "x-ratelimit-";
  take_limit(headers, now_ms, prefix + "limit-" + what,
             prefix + "remaining-" + what, prefix + "reset-" + what, limits);
}

void take_anthropic(const HttpHeaders& headers, std::int64_t now_ms,
                    const std::string& what, std::int64_t (&limits)[3]) {
  const std::string prefix = "anthropic-ratelimit-" + what;
  take_limit(headers, now_ms, prefix + "-limit", prefix + "-remaining",
             prefix + "-reset", limits);
}

}  // namespace

std::optional<std::int64_t> parse_reset_ms(std::string_view text,
                                           std::int64_t now_ms) {
  std::string_view rest = text;
  const auto number = take_number(rest);
  if (!number) return std::nullopt;
  if (rest.empty()) {
    constexpr double kEpochSeconds = 1e9;
    constexpr double kEpochMs = 1e12;
    const auto now = static_cast<double>(now_ms);
    if (*number >= kEpochMs) return bounded(*number - now);
    if (*number >= kEpochSeconds) return bounded(*number * kSecondMs - now);
    return bounded(*number * kSecondMs);
  }
  if (const auto duration = parse_duration_ms(text)) return duration;
  const auto at_ms = parse_rfc3339_ms(text);
  if (!at_ms) return std::nullopt;
  return bounded(static_cast<double>(*at_ms - now_ms));
}

LlmHeaderLimits limits_of(const HttpHeaders& headers, std::int64_t now_ms) {
  const std::int64_t now = now_of(headers, now_ms);
  std::int64_t requests[3] = {-1, -1, -1};
  std::int64_t tokens[3] = {-1, -1, -1};
  take_openai(headers, now, "requests", requests);
  take_anthropic(headers, now, "requests", requests);
  take_limit(headers, now, "x-ratelimit-limit", "x-ratelimit-remaining",
             "x-ratelimit-reset", requests);
  take_openai(headers, now, "tokens", tokens);
  take_anthropic(headers, now, "tokens", tokens);
  take_anthropic(headers, now, "input-tokens", tokens);
  LlmHeaderLimits llm_header_limits;
  llm_header_limits.requests_limit = requests[0];
  llm_header_limits.requests_remaining = requests[1];
  llm_header_limits.requests_reset_ms = requests[2];
  llm_header_limits.tokens_limit = tokens[0];
  llm_header_limits.tokens_remaining = tokens[1];
  llm_header_limits.tokens_reset_ms = tokens[2];
  return llm_header_limits;
}

std::optional<std::int64_t> retry_after_ms(const HttpHeaders& headers,
                                           std::int64_t now_ms) {
  if (const std::string* text = find(headers, "retry-after-ms")) {
    std::string_view rest = *text;
    const auto value = take_number(rest);
    if (value && rest.empty() && *value >= 0) return bounded(*value);
  }
  const std::string* text = find(headers, "retry-after");
  if (text == nullptr) return std::nullopt;
  std::string_view rest = *text;
  const auto seconds = take_number(rest);
  if (seconds && rest.empty()) {
    return *seconds < 0 ? std::nullopt : bounded(*seconds * kSecondMs);
  }
  const std::time_t at = curl_getdate(text->c_str(), nullptr);
  if (at < 0) return std::nullopt;
  return bounded(static_cast<double>(static_cast<std::int64_t>(at) * kSecondMs -
                                     now_of(headers, now_ms)));
}

std::optional<bool> should_retry(const HttpHeaders& headers) {
  const std::string* text = find(headers, "x-should-retry");
  if (text == nullptr) return std::nullopt;
  if (*text == "true") return true;
  if (*text == "false") return false;
  return std::nullopt;
}

}  // namespace weft
