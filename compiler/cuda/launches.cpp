#include "compiler/cuda/launches.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "messages/parse_json.hpp"

namespace weft {
namespace {

/// Fields in the order in which a person wants to read them.
using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = "/* launches\n";
constexpr std::string_view kEnd = "\n*/\n";

Json launch_json(const CudaLaunch& kernel_launch,
                 const std::map<std::string, std::string>& scratch) {
  Json launch = {{"function", kernel_launch.kernel},
                 {"grid", {kernel_launch.blocks, 1, 1}},
                 {"threads", kernel_launch.threads}};
  if (kernel_launch.shared_bytes > 0)
    launch["shared_bytes"] = kernel_launch.shared_bytes;
  if (kernel_launch.cluster > 1) launch["cluster"] = kernel_launch.cluster;
  if (kernel_launch.cooperative) launch["cooperative"] = true;
  launch["arguments"] = Json::array();
  for (const std::string& name : kernel_launch.arguments) {
    const auto found = scratch.find(name);
    launch["arguments"].push_back(found == scratch.end() ? name
                                                         : found->second);
  }
  return launch;
}

/// Where the comment stands; npos: nowhere.
struct Span {
  std::size_t begin = std::string_view::npos;
  std::size_t json = 0;
  std::size_t json_end = 0;
};

Span find_comment(std::string_view source) {
  const std::size_t begin = source.find(kBegin);
  if (begin == source.npos) return {};
  const std::size_t json = begin + kBegin.size();
  const std::size_t end = source.find(kEnd, json);
  return end == source.npos ? Span{} : Span{begin, json, end};
}

}  // namespace

std::string launches_comment(const CudaModule& module) {
  std::map<std::string, std::string> names;
  Json scratch = Json::array();
  for (const CudaScratch& buffer : module.scratch) {
    names[buffer.name] = "s" + std::to_string(names.size());
    scratch.push_back(buffer.bytes);
  }
  std::string launches;  // a line each
  for (const CudaLaunch& launch : module.launches) {
    launches +=
        (launches.empty() ? "  " : ",\n  ") + launch_json(launch, names).dump();
  }
  return std::string(kBegin) + "{\"scratch\": " + scratch.dump() +
         ", \"launches\": [\n" + launches + "]}" + std::string(kEnd);
}

Result<std::string> launches_in(std::string_view source) {
  const Span found = find_comment(source);
  if (found.begin == source.npos) {
    return fail(ErrorCode::wrong_input,
                "the source launches nothing: it has no comment "
                "'/* launches' at its top");
  }
  const auto parsed =
      parse_json(source.substr(found.json, found.json_end - found.json));
  if (!parsed.is_object() || !parsed.contains("launches") ||
      parsed["launches"].empty()) {
    return fail(ErrorCode::wrong_input,
                "the source's comment 'launches' is no JSON that launches "
                "anything (docs/explanation/code-generation.md)");
  }
  return parsed.dump();
}

std::string without_launches(std::string_view source) {
  const Span found = find_comment(source);
  if (found.begin == source.npos) return std::string(source);
  return std::string(source.substr(0, found.begin)) +
         std::string(source.substr(found.json_end + kEnd.size()));
}

}  // namespace weft
