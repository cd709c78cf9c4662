#include "runtime/llm/key.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/llm/blanks.hpp"
#include "runtime/llm/http.hpp"

namespace weft {
namespace {

/// Servers without keys want a word all the same: "EMPTY", "ollama", "x".
constexpr std::size_t kSecretBytesMin = 8;

/// Nobody's key is longer; a wrong file may be.
constexpr std::size_t kKeyBytesMax = 16'384;

Error no_key(const LlmEndpoint& endpoint, const std::string& why) {
  return {ErrorCode::missing,
          "no key for [llm." + endpoint.provider.name + "]: " + why};
}

/// A line break would let a key write headers of its own.
Result<std::string> checked(const LlmEndpoint& endpoint, std::string key,
                            const std::string& source) {
  const bool clean = std::ranges::all_of(
      key, [](unsigned char c) { return c > ' ' && c < 0x7F; });
  if (clean && key.size() <= kKeyBytesMax) return key;
  return std::unexpected(
      no_key(endpoint, "what " + source +
                           " holds is no key: it has blanks, control "
                           "characters or too many bytes"));
}

}  // namespace

Result<std::string> read_key(const LlmEndpoint& endpoint) {
  if (!endpoint.key_env.empty()) {
    const char* value = std::getenv(endpoint.key_env.c_str());
    const std::string key(value == nullptr ? "" : trimmed(value));
    if (key.empty()) {
      return std::unexpected(no_key(
          endpoint,
          "the environment variable " + endpoint.key_env +
              " is not set: export it, or name another place with key_env or "
              "key_file"));
    }
    return checked(endpoint, key, endpoint.key_env);
  }
  if (endpoint.key_file.empty()) return "";
  std::error_code error;
  if (std::filesystem::is_directory(endpoint.key_file, error)) {
    return std::unexpected(
        no_key(endpoint, endpoint.key_file + " is a folder: key_file names a "
                                             "file with the key alone"));
  }
  std::ifstream in(endpoint.key_file, std::ios::binary);
  if (!in) {
    return std::unexpected(
        no_key(endpoint, "the file " + endpoint.key_file +
                             " cannot be read: see that it is there and "
                             "yours, or set key_file"));
  }
  std::string bytes(kKeyBytesMax + 1, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  const std::string key(trimmed(bytes));
  if (key.empty()) {
    return std::unexpected(
        no_key(endpoint, "the file " + endpoint.key_file +
                             " is empty: it should hold the key alone"));
  }
  return checked(endpoint, key, endpoint.key_file);
}

std::string key_file_warning(const LlmEndpoint& endpoint) {
  if (endpoint.key_file.empty()) return "";
  std::error_code error;
  const auto mode =
      std::filesystem::status(endpoint.key_file, error).permissions();
  using std::filesystem::perms;
  const bool is_open =
      (mode & (perms::group_all | perms::others_all)) != perms::none;
  if (error || !is_open) return "";
  return "others may open " + endpoint.key_file + ": chmod 600 " +
         endpoint.key_file;
}

std::string without_key(std::string text, std::string_view key) {
  if (key.size() < kSecretBytesMin) return text;
  constexpr std::string_view kInstead = "[key]";
  for (auto at = text.find(key); at != std::string::npos;
       at = text.find(key, at + kInstead.size())) {
    text.replace(at, key.size(), kInstead);
  }
  return text;
}

Result<void> check_key_use(const LlmEndpoint& endpoint, std::string_view key) {
  const bool plain = endpoint.base_url.starts_with("http://");
  if (key.empty() || !plain || endpoint.plain_http ||
      is_this_machine(endpoint.base_url)) {
    return {};
  }
  return fail(ErrorCode::wrong_input,
              "[llm." + endpoint.provider.name + "]: the key would go to " +
                  endpoint.base_url +
                  " unencrypted: use https, or set plain_http = true");
}

Result<std::string> usable_key(const LlmEndpoint& endpoint) {
  auto key = read_key(endpoint);
  if (!key) return key;
  if (const auto use = check_key_use(endpoint, *key); !use) {
    return std::unexpected(use.error());
  }
  return key;
}

}  // namespace weft
