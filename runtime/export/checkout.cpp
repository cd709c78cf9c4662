#include "runtime/export/checkout.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "runtime/export/licence.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/sandbox/line_process.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kGitMs = 10'000;
constexpr const char* kLicenceNames[] = {
    "LICENSE",     "LICENSE.md", "LICENSE.txt", "LICENCE",
    "LICENCE.txt", "COPYING",    "COPYING.txt", "LICENCE.md"};

/// The one line that `command` answers. nullopt: no git, or it has no answer.
std::optional<std::string> ask(const std::vector<std::string>& command,
                               const std::string& question) {
  auto process = LineProcess::start({command, {}, {}});
  if (!process) return std::nullopt;
  const auto line = process->ask(question, kGitMs);
  if (!line || line->empty() || line->ends_with(" missing")) {
    return std::nullopt;
  }
  return *line;
}

/// The repository may be a stranger's, and its configuration names programs
/// that git would run: to fetch what is missing, and to filter files.
std::vector<std::string> git(const fs::path& folder,
                             std::vector<std::string> words) {
  std::vector<std::string> command = {"git",
                                      "-C",
                                      folder.string(),
                                      "-c",
                                      "protocol.allow=never",
                                      "-c",
                                      "core.fsmonitor=false",
                                      "-c",
                                      "core.hooksPath=/dev/null"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

std::optional<std::string> object_named(const fs::path& folder,
                                        const std::string& name) {
  return ask(git(folder, {"cat-file", "--batch-check=%(objectname)"}), name);
}

std::optional<std::string> remote_of(const fs::path& root) {
  // Git itself would end before it is asked, which a LineProcess takes for
  // a failure.
  constexpr const char* script =
      "read -r _; exec git -C \"$0\" config --get remote.origin.url";
  return ask({"sh", "-c", script, root.string()}, "");
}

/// The commit that has the file as it is.
std::optional<std::string> commit_of(const fs::path& file) {
  const fs::path folder = file.parent_path();
  const auto stored =
      object_named(folder, "HEAD:./" + file.filename().string());
  const auto now =
      ask(git(folder, {"hash-object", "--stdin-paths", "--no-filters"}),
          file.string());
  if (!stored || stored != now) return std::nullopt;
  return object_named(folder, "HEAD");
}

/// The folder above that has a .git; empty: none has.
fs::path root_of(const fs::path& folder) {
  std::error_code ignored;
  for (fs::path at = folder; !at.empty(); at = at.parent_path()) {
    if (fs::exists(at / ".git", ignored)) return at;
    if (at == at.parent_path()) break;
  }
  return {};
}

/// The nearest one from `folder` up to `root`; empty: there is none.
fs::path licence_file(const fs::path& folder, const fs::path& root) {
  std::error_code ignored;
  for (fs::path at = folder;; at = at.parent_path()) {
    for (const char* name : kLicenceNames) {
      if (fs::is_regular_file(at / name, ignored)) return at / name;
    }
    if (at == root || at == at.parent_path()) return {};
  }
}

void add_licence(json& fields, const fs::path& file, const fs::path& root) {
  if (file.empty()) return;
  fields["licence_file"] = file.lexically_relative(root).string();
  const auto text = read_file(file);
  const auto licence = text ? licence_in(*text) : std::nullopt;
  if (licence) fields["licence"] = *licence;
}

void add_repository(json& fields, const fs::path& file, const fs::path& root) {
  fields["path"] = file.lexically_relative(root).string();
  fields["repo_name"] = root.filename().string();
  const auto remote = remote_of(root);
  const std::string link = remote ? link_of_remote(*remote) : "";
  if (!link.empty()) {
    fields["repo_link"] = link;
    const auto host = link.find('/', link.find("//") + 2);
    fields["repo_name"] = link.substr(host + 1);
  }
  if (const auto commit = commit_of(file)) fields["sha"] = *commit;
}

}  // namespace

std::string link_of_remote(const std::string& remote) {
  constexpr std::string_view scheme_end = "://";
  std::string rest;
  if (const auto scheme = remote.find(scheme_end); scheme != remote.npos) {
    if (remote.starts_with("file:")) return "";
    rest = remote.substr(scheme + scheme_end.size());
  } else {
    // "git@host:owner/name", as scp has it.
    const auto colon = remote.find(':');
    if (colon == remote.npos || remote.find('/') < colon) return "";
    rest = remote.substr(0, colon) + "/" + remote.substr(colon + 1);
  }
  auto path = rest.find('/');
  if (path == rest.npos) return "";
  std::string host = rest.substr(0, path);
  if (const auto user = host.rfind('@'); user != host.npos) {
    host.erase(0, user + 1);
  }
  host.erase(std::min(host.find(':'), host.size()));  // the port of ssh, say
  std::string name = rest.substr(path + 1);
  while (name.ends_with('/')) name.pop_back();
  if (name.ends_with(".git")) name.erase(name.size() - 4);
  if (host.empty() || name.empty()) return "";
  return "https://" + host + "/" + name;
}

json checkout_of(const fs::path& file) {
  json fields = {{"licence_file", nullptr}, {"licence", nullptr},
                 {"repo_name", nullptr},    {"repo_link", nullptr},
                 {"sha", nullptr},          {"path", nullptr}};
  std::error_code error;
  const fs::path whole = fs::canonical(file, error);
  if (error) return fields;
  const fs::path root = root_of(whole.parent_path());
  const fs::path top = root.empty() ? whole.parent_path() : root;
  add_licence(fields, licence_file(whole.parent_path(), top), top);
  if (!root.empty()) add_repository(fields, whole, root);
  return fields;
}

}  // namespace weft
