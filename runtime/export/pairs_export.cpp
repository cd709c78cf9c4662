#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/compose/reference_of_signature.hpp"
#include "messages/parse_json.hpp"
#include "runtime/export/checkout.hpp"
#include "runtime/export/exports.hpp"
#include "runtime/export/licence.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// Texts that the run wrote, by their path in its directory.
class Files {
 public:
  Files(const Journal& journal, const json& view) : journal_(journal) {
    for (const json& file : view["files"]) {
      blobs_[file["path"].get<std::string>()] = file["text"].get<std::string>();
    }
  }
  std::string text(const std::string& path) const {
    const auto found = blobs_.find(path);
    return found == blobs_.end() ? "" : blob(found->second);
  }
  std::string blob(const std::string& hash) const {
    const auto text =
        hash.empty() ? fail(ErrorCode::missing, "") : journal_.get_blob(hash);
    return text ? *text : "";
  }

 private:
  const Journal& journal_;
  std::map<std::string, std::string> blobs_;
};

std::string device_of_run(const json& view) {
  const json& machine = view["environment"]["machine"];
  const json gpus = machine.value("gpus", json::array());
  if (!gpus.empty()) return gpus.front().value("name", "");
  return machine.value("name", "");
}

/// What is said where a licence is not known, instead of nothing.
constexpr const char* kUnknown = "unknown";

/// Under which licence a problem stands, and who says so.
struct PairLicence {
  std::string id;
  std::string from;
};

PairLicence given_licence(const std::string& id, const std::string& otherwise) {
  if (id.empty()) return {kUnknown, otherwise};
  return {id, "given with --license"};
}

/// The file's own words go before those of its checkout.
PairLicence licence_of(const std::string& given, const std::string& problem,
                       const json& checkout) {
  if (!given.empty()) return given_licence(given, "");
  if (const auto own = licence_in(problem)) return {*own, "the problem's file"};
  const json& file = checkout["licence_file"];
  if (!file.is_string()) {
    return {kUnknown, "neither the problem's file nor its checkout names one"};
  }
  const auto name = file.get<std::string>();
  if (!checkout["licence"].is_string()) {
    return {kUnknown, name + " of its checkout, which is none that weft knows"};
  }
  return {checkout["licence"].get<std::string>(), name + " of its checkout"};
}

/// As checkout_of() made it when the run began; its fields are null in runs
/// that did not ask.
json checkout_in(const Journal& journal) {
  const auto stored = journal.meta(kCheckoutMeta);
  json checkout = stored ? parse_json(*stored) : json();
  if (!checkout.is_object()) checkout = json::object();
  for (const char* name :
       {"licence_file", "licence", "repo_name", "repo_link", "sha", "path"}) {
    if (!checkout.contains(name)) checkout[name] = nullptr;
  }
  return checkout;
}

void add_licence(json& pair, const PairLicence& licence) {
  pair["licenses"] = json::array({licence.id});
  pair["licence_from"] = licence.from;
}

/// Where a run's pairs are from: alike for all of them.
struct Source {
  PairLicence licence;
  std::vector<std::string> copyrights;
  json checkout;
};

/// KernelBook's columns, the code aside. What weft cannot know is null.
json columns(const std::string& type, const std::string& uuid) {
  return {{"repo_name", nullptr},
          {"licenses", json::array()},
          {"stars", nullptr},
          {"sha", nullptr},
          {"repo_link", nullptr},
          {"module_name", type},
          {"entry_point", "reference"},
          {"synthetic", true},
          {"uuid", uuid},
          {"original_triton_code", nullptr}};
}

void add_kernel(json& pair, const std::string& kernel,
                const std::string& target, const std::string& origin) {
  pair["kernel_code"] = kernel;
  pair["triton_code"] = target == "triton" ? json(kernel) : json();
  pair["target"] = target;
  pair["licence_note"] =
      origin == "llm"
          ? "kernel_code was written by a language model: its provider's terms "
            "hold beside the problem's licence"
          : "kernel_code was printed by weft's compiler from the problem, "
            "whose "
            "licence holds";
}

/// KernelBook's columns first, then what weft knows beside them.
json pair_of(const json& view, const json& subgraph, const json& candidate,
             const Files& files, const Source& source) {
  const auto id = subgraph["id"].get<std::string>();
  json pair = columns(subgraph["type"].get<std::string>(),
                      candidate["source"].get<std::string>());
  add_licence(pair, source.licence);
  for (const char* name : {"repo_name", "repo_link", "sha"}) {
    pair[name] = source.checkout[name];
  }
  pair["copyright"] = source.copyrights;
  pair["python_code"] = files.text("kernels/" + id + "/reference.py");
  add_kernel(pair, files.blob(candidate["source"]),
             candidate["target"].get<std::string>(),
             candidate["origin"].get<std::string>());
  pair["device"] = device_of_run(view);
  pair["correct"] = candidate["verdict"]["correct"];
  pair["verdict"] = candidate["verdict"];
  pair["timing"] = candidate["timing"];
  pair["is_best"] = candidate["id"] == subgraph["best"];
  pair["signature"] = subgraph.value("signature", json());
  pair["provenance"] = {{"weft", view["environment"]["weft"]},
                        {"problem", view["problem"]},
                        {"problem_hash", view["problem_text"]},
                        {"problem_path", source.checkout["path"]},
                        {"origin", candidate["origin"]},
                        {"candidate", candidate["id"]},
                        {"parent", candidate["parent"]},
                        {"round", candidate["round"]},
                        {"variant", candidate["variant"]},
                        {"command", view["environment"]["command"]}};
  return pair;
}

json speedup_json(const Speedup& speedup) {
  return {
      {"ratio", speedup.ratio}, {"low", speedup.low}, {"high", speedup.high}};
}

/// "t0 = aten.add.Tensor(x0, 1): …" -> "add", each once, in order.
std::string type_in(const std::string& signature) {
  constexpr std::string_view call = " = aten.";
  std::string type;
  std::set<std::string> seen;
  for (auto at = signature.find(call); at != signature.npos;
       at = signature.find(call, at + 1)) {
    const auto begin = at + call.size();
    const auto end = signature.find_first_of(".(", begin);
    const std::string name = signature.substr(begin, end - begin);
    if (!seen.insert(name).second) continue;
    type += (type.empty() ? "" : "+") + name;
  }
  return type;
}

std::string line_of(const json& pair) {
  return pair.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string pairs_export(const Journal& journal, const json& view,
                         const std::string& licence) {
  std::string lines;
  if (!view["environment"].is_object()) return lines;
  const Files files(journal, view);
  const std::string problem =
      files.blob(view["problem_text"].get<std::string>());
  const json checkout = checkout_in(journal);
  const Source source{licence_of(licence, problem, checkout),
                      copyrights_in(problem), checkout};
  for (const json& subgraph : view["subgraphs"]) {
    for (const json& candidate : subgraph["candidates"]) {
      const json verdict = candidate.value("verdict", json());
      if (!verdict.is_object() || !verdict.value("correct", false)) continue;
      lines += line_of(pair_of(view, subgraph, candidate, files, source));
    }
  }
  return lines;
}

std::string pairs_of_library(const std::vector<LibraryEntry>& entries,
                             const std::string& file,
                             const std::string& licence, int& left_out) {
  std::string lines;
  left_out = 0;
  for (const LibraryEntry& entry : entries) {
    const KnownKernel& kernel = entry.stored.kernel;
    const std::string type = type_in(entry.key.signature);
    const auto reference = reference_of_signature(
        entry.key.signature, "Reference of " + type + ": ATen calls.");
    if (!reference) {
      ++left_out;
      continue;
    }
    json pair = columns(type, content_hash(entry.stored.text));
    add_licence(pair, given_licence(licence,
                                    "a kernel library does not keep whose "
                                    "model a kernel is of"));
    pair["copyright"] = json::array();
    pair["python_code"] = *reference;
    add_kernel(pair, entry.stored.text, kernel.target, kernel.origin);
    pair["device"] = entry.key.device;
    pair["correct"] = true;  // no other is kept
    pair["verdict"] = nullptr;
    pair["timing"] = {{"candidate",
                       {{"median_us", kernel.candidate.median_us},
                        {"p10_us", kernel.candidate.p10_us},
                        {"p90_us", kernel.candidate.p90_us},
                        {"runs", kernel.candidate.runs}}},
                      {"over_eager", speedup_json(kernel.over_eager)},
                      {"over_compile", speedup_json(kernel.over_compile)},
                      {"floor_share", kernel.floor_share}};
    pair["is_best"] = true;
    pair["signature"] = entry.key.signature;
    pair["provenance"] = {{"library", file},
                          {"origin", kernel.origin},
                          {"variant", kernel.variant},
                          {"wanted", entry.key.target},
                          {"policy", entry.key.policy},
                          {"kept_us", entry.stored_us},
                          {"uses", entry.uses}};
    lines += line_of(pair);
  }
  return lines;
}

}  // namespace weft
