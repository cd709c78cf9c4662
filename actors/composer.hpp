// Weaves the kernels that won into ModelNew, has it verified and timed end to
// end, and writes the module and the report. When the whole is wrong it drops
// the kernels that fit worst, half of them at a time; when it is slower than
// eager, and so again when it is timed once more, it keeps the framework's
// forward. The last resort has no kernels. What is right and cannot be timed is
// reported so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/errands.hpp"
#include "actors/report.hpp"
#include "actors/role.hpp"

namespace weft {

class Composer : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  void recall(const Message& recorded) override;

 private:
  void begin(const Compose& compose, Context& context);
  void attempt(Context& context);
  std::uint64_t start(const Address& port, const Message& request, int units,
                      std::int64_t wall_ms, Context& context);
  void ended(const ErrandEnd& end, Context& context);
  void checked(const Verdict& verdict, Context& context);
  void time(Context& context);
  void timed(const TimeReply& reply, Context& context);
  void drop_all(Context& context);
  void take_all();
  void drop_some(const std::string& why, Context& context);
  void probed(const ProbeReply* reply, Context& context);
  void give_up(const Failure& failure, Context& context);

  std::optional<Compose> compose_;
  Plan plan_;
  Errands errands_;
  std::vector<const SubgraphDone*> chosen_;  ///< into compose_->results
  std::string source_;                       ///< blob: model_new.py
  Report report_;
  bool was_slower_ = false;   ///< than eager, the first time it was timed
  std::uint64_t timing_ = 0;  ///< the errand that times the whole
  std::uint64_t probe_ = 0;   ///< the errand that asks about the machine
  bool over_ = false;
};

}  // namespace weft
