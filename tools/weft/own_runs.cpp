#include "tools/weft/own_runs.hpp"

#include <string>

#include "messages/vocabulary.hpp"
#include "runtime/store/own_key.hpp"

namespace weft {
namespace {

constexpr const char* kMarkMeta = "begun_here";

}  // namespace

void mark_own(Journal& journal, const RunStart& start) {
  const std::string mark = own_mark(encode(Message(start)));
  if (mark.empty()) return;
  [[maybe_unused]] const auto kept = journal.set_meta(kMarkMeta, mark);
}

bool is_own(const Journal& journal) {
  const auto mark = journal.meta(kMarkMeta);
  if (!mark) return false;
  bool is_ours = false;
  const auto read = journal.read(1, [&](const Envelope& first) {
    const std::string own = own_mark(first.body);
    is_ours = !own.empty() && *mark == own;
    return false;
  });
  return read && is_ours;
}

}  // namespace weft
