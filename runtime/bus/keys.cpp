#include "runtime/bus/keys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <zmq.hpp>

#include "runtime/machine/files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kKeyTextBytes = 40;

/// Made with its mode, never opened for others even for a moment.
Result<void> write_new(const fs::path& file, const std::string& text,
                       mode_t mode) {
  const int fd =
      open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) {
    const int error = errno;
    return fail(ErrorCode::wrong_input,
                "cannot make " + file.string() + ": " + std::strerror(error) +
                    (error == EEXIST ? "; name a folder that has no keys yet"
                                     : "; name a folder that you can write"));
  }
  const auto written = write(fd, text.data(), text.size());
  const bool good = written == static_cast<ssize_t>(text.size());
  if (close(fd) != 0 || !good) {
    return fail(ErrorCode::failed, "cannot write " + file.string());
  }
  return {};
}

bool is_key(const std::string& text) {
  std::uint8_t bytes[32];
  return text.size() == kKeyTextBytes &&
         zmq_z85_decode(bytes, text.c_str()) != nullptr;
}

std::string first_word(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  return word;
}

/// Why a file of a --keys folder cannot be read; empty: it can be, or there is
/// none.
std::string fault_of_access(const fs::path& file) {
  if (access(file.c_str(), R_OK) == 0 || errno == ENOENT) return "";
  return "cannot read " + file.string() + ": " + std::strerror(errno) +
         "; name a folder that you can read with --keys, or change its "
         "permissions";
}

Result<std::string> read_key(const fs::path& file, bool is_secret) {
  struct stat about{};
  if (is_secret && stat(file.c_str(), &about) == 0 &&
      (about.st_mode & 077) != 0) {
    return fail(ErrorCode::wrong_input, "others can read " + file.string() +
                                            ": chmod 600 it, or make new keys");
  }
  const auto text = read_file(file);
  if (!text) {
    if (const std::string why = fault_of_access(file); !why.empty()) {
      return fail(ErrorCode::wrong_input, why);
    }
    return fail(ErrorCode::wrong_input,
                "no key " + file.string() + ": 'weft keygen DIR' makes keys");
  }
  std::string key = first_word(*text);
  if (!is_key(key)) {
    return fail(ErrorCode::wrong_input, file.string() + " holds no key");
  }
  return key;
}

Result<BusKeys> read_pair(const fs::path& folder, const std::string& name) {
  auto own_public = read_key(folder / (name + ".key"), false);
  if (!own_public) return std::unexpected(own_public.error());
  auto own_secret = read_key(folder / (name + ".secret"), true);
  if (!own_secret) return std::unexpected(own_secret.error());
  BusKeys keys;
  keys.own_public = std::move(*own_public);
  keys.own_secret = std::move(*own_secret);
  return keys;
}

}  // namespace

Result<void> make_keys(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return fail(ErrorCode::wrong_input,
                "cannot make the folder " + folder.string() + ": " +
                    error.message() + "; name a folder that you can write");
  }
  std::string allowed = "# Public keys of nodes that may join, one a line.\n";
  for (const std::string name : {"head", "node"}) {
    char own_public[kKeyTextBytes + 1];
    char own_secret[kKeyTextBytes + 1];
    if (zmq_curve_keypair(own_public, own_secret) != 0) {
      return fail(ErrorCode::missing, "this machine's ZeroMQ has no CURVE");
    }
    auto done = write_new(folder / (name + ".secret"),
                          std::string(own_secret) + "\n", 0600);
    if (done) {
      done = write_new(folder / (name + ".key"), std::string(own_public) + "\n",
                       0644);
    }
    if (!done) return done;
    if (name == "node") allowed += std::string(own_public) + "\n";
  }
  return write_new(folder / "allowed", allowed, 0644);
}

Result<BusKeys> read_head_keys(const fs::path& folder) {
  auto keys = read_pair(folder, "head");
  if (!keys) return keys;
  const auto list = read_file(folder / "allowed");
  if (!list) {
    const fs::path file = folder / "allowed";
    const std::string why = fault_of_access(file);
    return fail(ErrorCode::wrong_input,
                !why.empty() ? why
                             : "no list of allowed keys " + file.string() +
                                   ": 'weft keygen DIR' makes one");
  }
  std::istringstream lines(*list);
  for (std::string line; std::getline(lines, line);) {
    const std::string key = first_word(line);
    if (key.empty() || key.starts_with('#')) continue;
    if (!is_key(key)) {
      return fail(ErrorCode::wrong_input,
                  (folder / "allowed").string() + " has a line that is no key");
    }
    keys->allowed.insert(key);
  }
  return keys;
}

Result<BusKeys> read_node_keys(const fs::path& folder) {
  auto keys = read_pair(folder, "node");
  if (!keys) return keys;
  auto head = read_key(folder / "head.key", false);
  if (!head) return std::unexpected(head.error());
  keys->head_public = std::move(*head);
  return keys;
}

bool is_loopback(const std::string& endpoint) {
  for (const char* begin :
       {"tcp://127.", "tcp://localhost:", "tcp://[::1]:", "ipc://"}) {
    if (endpoint.starts_with(begin)) return true;
  }
  return false;
}

Result<void> check_is_closed(const std::string& endpoint, bool has_keys) {
  if (has_keys || is_loopback(endpoint)) return {};
  return fail(ErrorCode::wrong_input,
              endpoint +
                  " can be reached from other machines: make keys with "
                  "'weft keygen DIR' and name them with --keys DIR, or "
                  "listen on tcp://127.0.0.1:PORT");
}

}  // namespace weft
