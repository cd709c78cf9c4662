#include <map>
#include <nlohmann/json.hpp>

#include "runtime/export/exports.hpp"

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

/// KernelBook's columns first, then what weft knows beside them.
json pair_of(const json& view, const json& subgraph, const json& candidate,
             const Files& files) {
  const auto id = subgraph["id"].get<std::string>();
  const std::string kernel = files.blob(candidate["source"]);
  const bool is_triton = candidate["target"] == "triton";
  return {
      {"repo_name", nullptr},
      {"licenses", json::array()},
      {"stars", nullptr},
      {"sha", nullptr},
      {"repo_link", nullptr},
      {"module_name", subgraph["type"]},
      {"entry_point", "reference"},
      {"synthetic", true},
      {"uuid", candidate["source"]},
      {"python_code", files.text("kernels/" + id + "/reference.py")},
      {"triton_code", is_triton ? json(kernel) : json()},
      {"kernel_code", kernel},
      {"target", candidate["target"]},
      {"device", device_of_run(view)},
      {"correct", candidate["verdict"]["correct"]},
      {"verdict", candidate["verdict"]},
      {"timing", candidate["timing"]},
      {"is_best", candidate["id"] == subgraph["best"]},
      {"signature", subgraph.value("signature", json())},
      {"provenance",
       {{"weft", view["environment"]["weft"]},
        {"problem", view["problem"]},
        {"problem_hash", view["problem_text"]},
        {"origin", candidate["origin"]},
        {"candidate", candidate["id"]},
        {"parent", candidate["parent"]},
        {"round", candidate["round"]},
        {"variant", candidate["variant"]},
        {"command", view["environment"]["command"]}}},
      {"licence_note",
       candidate["origin"] == "llm"
           ? "written by a language model: its provider's terms hold"
           : "printed by weft's compiler from the problem: the problem's own "
             "licence holds"}};
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
      lines += pair_of(view, subgraph, candidate, files)
                   .dump(-1, ' ', false, json::error_handler_t::replace) +
               "\n";
    }
  }
  return lines;
}

}  // namespace weft
