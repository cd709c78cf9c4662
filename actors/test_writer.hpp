// Turns a model that is described in plain words into a problem file: asks a
// language model for it, and once more, independently, for what its values are
// to be held against. Both are files of the run directory: problem.py, and
// second.py with ModelNew. Whoever asked reads the first, and has the two
// compared, before anything runs that depends on it.
#pragma once

#include <optional>

#include "actors/llm/calls.hpp"
#include "actors/pending_effects.hpp"
#include "actors/role.hpp"

namespace weft {

inline const Address test_writer = "test_writer";

class TestWriter : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

 private:
  void begin(const RunStart& start, Context& context);
  void ask(const std::string& fault, Context& context);
  void answered(const LlmEnd& end, Context& context);
  void write(const std::string& problem, const std::string& second,
             Context& context);
  void finish(int exit_code, const std::string& summary, Context& context);

  std::optional<RunStart> run_;
  LlmCalls calls_{LlmCalls::kFirstCallNumber};
  PendingEffects effects_;
  LlmSpent spent_;
  int asked_ = 0;  ///< times
  bool over_ = false;
};

}  // namespace weft
