#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/compose/reference_of_signature.hpp"
#include "runtime/export/exports.hpp"
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
          ? "written by a language model: its provider's terms hold"
          : "printed by weft's compiler from the problem: the problem's own "
            "licence holds";
}

/// KernelBook's columns first, then what weft knows beside them.
json pair_of(const json& view, const json& subgraph, const json& candidate,
             const Files& files) {
  const auto id = subgraph["id"].get<std::string>();
  json pair = columns(subgraph["type"].get<std::string>(),
                      candidate["source"].get<std::string>());
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
  return pair.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string pairs_export(const Journal& journal, const json& view) {
  std::string lines;
  if (!view["environment"].is_object()) return lines;
  const Files files(journal, view);
  for (const json& subgraph : view["subgraphs"]) {
    for (const json& candidate : subgraph["candidates"]) {
      const json verdict = candidate.value("verdict", json());
      if (!verdict.is_object() || !verdict.value("correct", false)) continue;
      lines += line_of(pair_of(view, subgraph, candidate, files));
    }
  }
  return lines;
}

std::string pairs_of_library(const std::vector<LibraryEntry>& entries,
                             const std::string& file, int& left_out) {
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
                          {"kept_us", entry.kept_us},
                          {"uses", entry.uses}};
    lines += line_of(pair);
  }
  return lines;
}

}  // namespace weft
