// Seeds that a language model writes: first kernels for a subgraph, and better
// ones for those that it or, in a beam, another source wrote. What it answers
// is taken apart; what is no kernel, or one that was proposed before, is sent
// on with the reason as its verdict, and is not judged.
#pragma once

#include <map>
#include <set>
#include <string>

#include "actors/llm/calls.hpp"
#include "actors/role.hpp"

namespace weft {

/// As given to --seeds, and in Seed::origin.
inline constexpr const char* kLlmSource = "llm";

class LlmSeeds : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

 private:
  struct Asked {
    Address by;
    std::string subgraph;
    std::string parent;
    std::string method;  ///< Seed::method
    int round = 0;
  };
  void ask(const Address& by, const RefineRequest& request, Context& context);
  void stop(const Address& by, const std::string& why, Context& context);
  void answered(const LlmEnd& end, Context& context);

  LlmCalls calls_;
  std::map<std::uint64_t, Asked> asked_;               ///< by call
  std::map<std::string, std::set<std::string>> seen_;  ///< by subgraph: keys
  std::map<std::string, int> count_;                   ///< of seeds, likewise
};

}  // namespace weft
