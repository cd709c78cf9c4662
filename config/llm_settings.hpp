// The providers of language models that the settings declare: [llm.NAME].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/llm_endpoint.hpp"
#include "config/settings.hpp"

namespace weft {

/// A setting of a provider's section. docs/reference/settings.md is written
/// from it.
struct LlmSettingSpec {
  std::string_view name;  ///< "limits.calls_at_once"
  Setting::Kind kind = Setting::Kind::text;
  std::string default_value;  ///< for people; empty: none
  std::string_view help;
};
const std::vector<LlmSettingSpec>& llm_setting_specs();

/// All declared providers, in the order of their names. Takes their variables
/// from the environment. wrong_input names the file and the line of what is
/// unknown, malformed or unsafe.
Result<std::vector<LlmEndpoint>> llm_endpoints(Settings& settings,
                                               const Environment& environment);

/// wrong_input: no such provider; says which there are.
Result<LlmEndpoint> find_endpoint(const std::vector<LlmEndpoint>& endpoints,
                                  std::string_view name);

/// The provider and all that it falls back on, in the order in which they are
/// asked, each once.
Result<std::vector<LlmProvider>> providers_of(
    const std::vector<LlmEndpoint>& endpoints, std::string_view name);

}  // namespace weft
