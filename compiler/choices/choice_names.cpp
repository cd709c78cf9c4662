#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "compiler/choices/choice_rows.hpp"
#include "compiler/choices/choices.hpp"
#include "messages/nearest.hpp"

namespace weft {
namespace {

/// Names that an unknown one may have been meant as, at most.
constexpr std::size_t kNearMax = 4;

void visit_all(Choices& choices, const VisitChoice& visit) {
  visit_fusion(choices.fusion, visit);
  visit_contraction(choices.contraction, visit);
  visit_lowering(choices.lowering, visit);
  visit_loops(choices.loops, visit);
  visit_cpu(choices.cpu, visit);
  visit_triton(choices.triton, visit);
  visit_cuda(choices.cuda, visit);
}

NamedChoice named(const ChoiceRow& row, ChoiceField field) {
  NamedChoice choice{std::string(row.name),
                     std::string(row.unit),
                     std::string(row.source),
                     0,
                     row.bounds.least,
                     row.bounds.most,
                     true};
  std::visit(
      [&]<class Value>(Value* value) {
        choice.value = static_cast<double>(*value);
        choice.is_whole = std::is_integral_v<Value>;
      },
      field);
  return choice;
}

/// Why the choice cannot have that value; empty: it can.
std::string fault_of(const NamedChoice& choice, double value) {
  if (!std::isfinite(value) || value < choice.least || value > choice.most) {
    return choice.name + " is from " + choice_text(choice.least) + " to " +
           choice_text(choice.most) + " " + choice.unit;
  }
  if (choice.is_whole && value != std::floor(value)) {
    return choice.name + " is a whole number of " + choice.unit;
  }
  return "";
}

std::string unknown(std::string_view name) {
  std::vector<NamedChoice> all = list_choices();
  // A part of a name is nearer to it than letters that happen to be alike.
  const auto far = [&](const NamedChoice& choice) {
    return choice.name.contains(name) ? 0 : edit_distance(choice.name, name);
  };
  std::ranges::stable_sort(all, {}, far);
  std::string text =
      "there is no choice '" + std::string(name) + "'; near to it:";
  for (std::size_t i = 0; i < std::min(kNearMax, all.size()); ++i) {
    text += (i == 0 ? " " : ", ") + all[i].name;
  }
  return text + " ('weft choices' lists all)";
}

}  // namespace

Result<Choices> choices_with(const std::map<std::string, double>& values) {
  Choices choices;
  std::map<std::string, double, std::less<>> open(values.begin(), values.end());
  std::string fault;
  visit_all(choices, [&](const ChoiceRow& row, ChoiceField field) {
    const auto found = open.find(row.name);
    if (found == open.end()) return;
    const double given = found->second;
    open.erase(found);
    const std::string reason = fault_of(named(row, field), given);
    if (!reason.empty()) {
      fault = reason;
      return;
    }
    std::visit(
        [&]<class Value>(Value* value) { *value = static_cast<Value>(given); },
        field);
  });
  if (!open.empty()) fault = unknown(open.begin()->first);
  if (fault.empty()) return choices;
  return fail(ErrorCode::wrong_input, fault);
}

std::vector<NamedChoice> list_choices(Choices choices) {
  std::vector<NamedChoice> list;
  visit_all(choices, [&](const ChoiceRow& row, ChoiceField field) {
    list.push_back(named(row, field));
  });
  return list;
}

std::string choice_text(double value) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  // The longest whole number that there may be has fewer digits.
  return end.ec == std::errc() ? std::string(text, end.ptr) : "?";
}

Result<std::pair<std::string, double>> parse_choice(std::string_view text) {
  const auto equals = text.find('=');
  double value = 0;
  const std::string_view typed =
      equals == text.npos ? "" : text.substr(equals + 1);
  const auto end =
      std::from_chars(typed.data(), typed.data() + typed.size(), value);
  if (typed.empty() || end.ec != std::errc() ||
      end.ptr != typed.data() + typed.size()) {
    return fail(ErrorCode::wrong_input,
                "'" + std::string(text) +
                    "' is no choice: it is NAME=NUMBER, such as "
                    "cuda.windows.rows_max=8 ('weft choices' lists all)");
  }
  std::pair<std::string, double> choice{text.substr(0, equals), value};
  const auto choices = choices_with({choice});
  if (!choices) return std::unexpected(choices.error());
  return choice;
}

}  // namespace weft
