#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "messages/shown_text.hpp"
#include "runtime/debug/difference.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kCausesShown = 12;
constexpr std::size_t kValueBytesMax = 80;

std::string short_text(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kValueBytesMax) {
    text = text.substr(0, kValueBytesMax) + "…";
  }
  return text;
}

json event_json(const std::optional<Envelope>& event) {
  return event ? envelope_fields(*event) : json();
}

json pair_json(const Pair& pair) {
  json fields = json::array();
  for (const FieldDifference& field : pair.fields) {
    fields.push_back(
        {{"field", field.path}, {"left", field.left}, {"right", field.right}});
  }
  return {{"left", event_json(pair.left)},
          {"right", event_json(pair.right)},
          {"fields", std::move(fields)}};
}

json events_json(const std::vector<Envelope>& events) {
  json list = json::array();
  for (const Envelope& event : events) list.push_back(event_json(event));
  return list;
}

void print_json(const Difference& found) {
  json fields = json::array();
  for (const Pair& pair : found.inputs) fields.push_back(pair_json(pair));
  const json line = {{"left_events", found.left_events},
                     {"right_events", found.right_events},
                     {"alike", found.alike},
                     {"differing", found.differing},
                     {"first", found.first ? pair_json(*found.first) : json()},
                     {"instead", events_json(found.instead)},
                     {"inputs", std::move(fields)},
                     {"left_causes", events_json(found.left_causes)},
                     {"right_causes", events_json(found.right_causes)}};
  print_line(line);
}

void print_pair(const Pair& pair) {
  if (pair.left)
    std::printf("  left   %s\n", format_envelope(*pair.left).c_str());
  if (pair.right)
    std::printf("  right  %s\n", format_envelope(*pair.right).c_str());
  if (!pair.left) std::printf("  left   nothing\n");
  if (!pair.right) std::printf("  right  nothing\n");
  for (const FieldDifference& field : pair.fields) {
    std::printf("         %s: %s, %s\n", terminal_line(field.path).c_str(),
                terminal_line(short_text(field.left)).c_str(),
                terminal_line(short_text(field.right)).c_str());
  }
}

void print_causes(const char* side, const std::vector<Envelope>& causes) {
  if (causes.empty()) return;
  std::printf("What led to it in %s:\n", side);
  const std::size_t shown = std::min(causes.size(), kCausesShown);
  for (std::size_t i = 0; i < shown; ++i) {
    std::printf("  %s\n", format_envelope(causes[i]).c_str());
  }
  if (shown < causes.size()) {
    std::printf("  … and %zu before\n", causes.size() - shown);
  }
}

void print(const Difference& found) {
  std::printf("%llu and %llu events, %llu decisions alike\n",
              static_cast<unsigned long long>(found.left_events),
              static_cast<unsigned long long>(found.right_events),
              static_cast<unsigned long long>(found.alike));
  if (!found.first) {
    std::printf("the roles decided alike\n");
    return;
  }
  const Envelope& decision =
      found.first->left ? *found.first->left : *found.first->right;
  std::printf("%llu differ. The first is of %s:\n",
              static_cast<unsigned long long>(found.differing),
              terminal_line(decision.src).c_str());
  print_pair(*found.first);
  if (!found.instead.empty()) {
    std::printf("What it said there instead:\n");
    for (const Envelope& event : found.instead) {
      std::printf("  %s\n", format_envelope(event).c_str());
    }
  }
  if (!found.inputs.empty()) {
    std::printf("What it received differently, the last first:\n");
    for (const Pair& pair : found.inputs) print_pair(pair);
  }
  print_causes("the left run", found.left_causes);
  print_causes("the right run", found.right_causes);
}

}  // namespace

int diff_command(const CommonFlags& common, const DiffFlags& flags) {
  const auto left = RunDirectory::open(flags.left);
  if (!left) return report_error(common, left.error());
  const auto right = RunDirectory::open(flags.right);
  if (!right) return report_error(common, right.error());
  const auto left_journal = Journal::open_read_only(left->journal());
  if (!left_journal) return report_error(common, left_journal.error());
  const auto right_journal = Journal::open_read_only(right->journal());
  if (!right_journal) return report_error(common, right_journal.error());
  const auto found = difference(*left_journal, *right_journal);
  if (!found) return report_error(common, found.error());
  (common.json ? print_json : print)(*found);
  return found->first ? 1 : 0;
}

}  // namespace weft
