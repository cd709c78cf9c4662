// Names that messages and their fields had in earlier vocabularies. Old
// journals keep them, and decode() reads them by these tables. Writers
// use today's names only. To rename something: add the earlier name here and
// raise vocabulary_version.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace weft::earlier {

struct Name {
  std::string_view now;
  std::string_view before;
};

/// Message types. Until vocabulary 3.
inline constexpr std::array kTypes = {
    Name{"SearchEagerContractions", "SearchNearCut"},
    Name{"EagerContractionsSearched", "NearCutSearched"},
};

/// Fields. Until vocabulary 3. No struct has one field of each name of a pair,
/// so that the name alone says which field is meant.
inline constexpr std::array kFields = {
    Name{"location", "place"},
    Name{"locations", "places"},
    Name{"location_lost", "lost"},
    Name{"locations_lost", "lost"},
    Name{"retained", "held"},
    Name{"from_library", "kept"},
    Name{"correct", "right"},
    Name{"expected_gain", "worth"},
    Name{"superseded", "outdone"},
    Name{"kernelbench", "near_eager"},
    Name{"random_seed", "seed"},
    Name{"kernel_library", "library"},
    Name{"back_to_back_calls", "in_a_row_calls"},
    Name{"back_to_back_us", "in_a_row_us"},
    Name{"prompt", "name"},
};

struct Value {
  std::string_view field;  ///< today's name
  std::string_view now;
  std::string_view before;
};

/// Words that stand in a field. Until vocabulary 3.
inline constexpr std::array kValues = {
    Value{"code", "node_lost", "lost"},
    Value{"code", "disk_full", "no_room"},
    Value{"outcome", "not_faster", "lost"},
    Value{"outcome", "within", "near"},
    Value{"outcome", "outside", "far"},
    Value{"compiled", "within", "near"},
    Value{"compiled", "outside", "far"},
    Value{"accept", "kernelbench", "near-eager"},
    Value{"rules", "kernelbench", "near-eager"},
    Value{"prompt", "propose", "first"},
    Value{"prompt", "repair", "wrong"},
    Value{"prompt", "optimize", "faster"},
};

/// The type that this one is called now.
constexpr std::string_view type_now(std::string_view type) {
  for (const Name& name : kTypes) {
    if (name.before == type) return name.now;
  }
  return type;
}

/// The field's earlier name; empty: it had none.
constexpr std::string_view field_before(std::string_view field) {
  for (const Name& name : kFields) {
    if (name.now == field) return name.before;
  }
  return {};
}

/// The word that stands for `value` in that field now.
constexpr std::string_view value_now(std::string_view field,
                                     std::string_view value) {
  for (const Value& word : kValues) {
    if (word.field == field && word.before == value) return word.now;
  }
  return value;
}

/// Brings a field that was read up to date. Only texts have such words.
template <typename Field>
void update(std::string_view, Field&) {}
inline void update(std::string_view field, std::string& text) {
  const std::string_view now = value_now(field, text);
  if (now != text) text = now;
}
inline void update(std::string_view field, std::vector<std::string>& texts) {
  for (std::string& text : texts) update(field, text);
}

}  // namespace weft::earlier
