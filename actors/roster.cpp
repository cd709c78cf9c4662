#include "actors/roster.hpp"

#include <map>

#include "actors/broker.hpp"
#include "actors/composer.hpp"
#include "actors/dispatcher.hpp"
#include "actors/extractor.hpp"
#include "actors/inductor_seeds.hpp"
#include "actors/library_seeds.hpp"
#include "actors/llm/seeds.hpp"
#include "actors/seed_generator.hpp"
#include "actors/subgraph_agent.hpp"
#include "actors/test_writer.hpp"
#include "actors/verification_worker.hpp"

namespace weft {
namespace {

using Maker = std::unique_ptr<Role> (*)();

template <class R>
std::unique_ptr<Role> make() {
  return std::make_unique<R>();
}

/// By the address, else by its kind: "seeds/compiler", then "seeds".
const std::map<std::string, Maker, std::less<>>& makers() {
  static const std::map<std::string, Maker, std::less<>> table = {
      {address::broker, &make<Broker>},
      {address::composer, &make<Composer>},
      {address::dispatcher, &make<Dispatcher>},
      {address::extractor, &make<Extractor>},
      {address::seeds("compiler"), &make<CompilerSeeds>},
      {address::seeds("inductor"), &make<InductorSeeds>},
      {address::seeds("library"), &make<LibrarySeeds>},
      {address::seeds("llm"), &make<LlmSeeds>},
      {test_writer, &make<TestWriter>},
      {"agent", &make<SubgraphAgent>},
      {"worker", &make<VerificationWorker>},
  };
  return table;
}

Maker maker_of(const Address& address) {
  auto found = makers().find(address);
  if (found == makers().end()) found = makers().find(kind_of(address));
  return found == makers().end() ? nullptr : found->second;
}

}  // namespace

bool is_role(const Address& address) { return maker_of(address) != nullptr; }

std::unique_ptr<Role> make_role(const Address& address) {
  const Maker maker = maker_of(address);
  return maker ? maker() : nullptr;
}

}  // namespace weft
