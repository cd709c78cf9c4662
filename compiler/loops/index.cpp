#include "compiler/loops/index.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace weft {
namespace {

// value = outer * scale + inner with 0 <= inner < scale. Found for the largest
// scale > 1 that divides `divisor`; lets (h*W + w) / (2*W) become h / 2.
struct Split {
  std::int64_t scale = 1;
  Index outer;
  Index inner;
};

Index of_terms(const std::vector<Index::Term>& terms, std::int64_t divide) {
  Index sum;
  for (const auto& term : terms) {
    Index atom;
    const auto& a = *term.atom;
    if (a.kind == Index::AtomKind::variable) {
      atom = Index(a.variable);
    } else if (a.kind == Index::AtomKind::quotient) {
      atom = floor_div(a.inner, a.divisor);
    } else {
      atom = floor_mod(a.inner, a.divisor);
    }
    sum = sum + atom * (term.coefficient / divide);
  }
  return sum;
}

bool split_at(const Index& value, std::int64_t scale, Split& split) {
  std::vector<Index::Term> outer;
  std::vector<Index::Term> inner;
  for (const auto& term : value.terms()) {
    (term.coefficient % scale == 0 ? outer : inner).push_back(term);
  }
  const std::int64_t low = ((value.offset() % scale) + scale) % scale;
  split.scale = scale;
  split.inner = of_terms(inner, 1) + low;
  split.outer = of_terms(outer, scale) + (value.offset() - low) / scale;
  const auto [least, most] = split.inner.range();
  return least >= 0 && most < scale;
}

// value = divisor * first + second, where some term went into `first` and
// `second` is never negative; what a rounded-down quotient lets pass.
std::optional<std::pair<Index, Index>> take_multiples(const Index& value,
                                                      std::int64_t divisor) {
  Split split;
  split_at(value, divisor, split);
  if (split.outer.is_constant() && split.outer.offset() == 0) {
    return std::nullopt;
  }
  if (split.inner.range().first < 0) return std::nullopt;
  return std::pair(split.outer, split.inner);
}

// Tries the divisor itself, then each coefficient's common factor with it.
bool find_split(const Index& value, std::int64_t divisor, Split& best) {
  std::vector<std::int64_t> scales = {divisor};
  for (const auto& term : value.terms()) {
    scales.push_back(std::gcd(term.coefficient, divisor));
  }
  std::sort(scales.rbegin(), scales.rend());
  for (const std::int64_t scale : scales) {
    if (scale > 1 && split_at(value, scale, best)) return true;
  }
  return false;
}

}  // namespace

Index::Index(LoopVar variable) {
  if (variable.extent == 1) return;
  Atom atom;
  atom.variable = variable;
  atom.key = "v" + std::to_string(variable.id);
  *this = of_atom(std::move(atom));
}

Index Index::of_atom(Atom atom) {
  Index index;
  index.terms_.push_back({1, std::make_shared<const Atom>(std::move(atom))});
  index.rekey();
  return index;
}

bool Index::is_affine() const {
  return std::all_of(terms_.begin(), terms_.end(), [](const Term& t) {
    return t.atom->kind == AtomKind::variable;
  });
}

std::pair<std::int64_t, std::int64_t> Index::range() const {
  std::int64_t low = offset_;
  std::int64_t high = offset_;
  for (const auto& [coefficient, atom] : terms_) {
    std::int64_t most = 0;
    std::int64_t least = 0;
    if (atom->kind == AtomKind::variable) {
      most = atom->variable.extent - 1;
    } else if (atom->kind == AtomKind::quotient) {
      most = atom->inner.range().second / atom->divisor;
    } else {
      most = std::min(atom->divisor - 1, atom->inner.range().second);
    }
    if (coefficient < 0) std::swap(least, most);
    low += coefficient * least;
    high += coefficient * most;
  }
  return {low, high};
}

std::int64_t Index::coefficient(int variable) const {
  for (const auto& [coefficient, atom] : terms_) {
    if (atom->kind == AtomKind::variable && atom->variable.id == variable) {
      return coefficient;
    }
  }
  return 0;
}

bool Index::hides(int variable) const {
  return std::any_of(terms_.begin(), terms_.end(), [&](const Term& t) {
    return t.atom->kind != AtomKind::variable && t.atom->inner.uses(variable);
  });
}

bool Index::uses(int variable) const {
  return coefficient(variable) != 0 || hides(variable);
}

void Index::collect(std::map<int, LoopVar>& variables) const {
  for (const auto& [coefficient, atom] : terms_) {
    if (atom->kind == AtomKind::variable) {
      variables[atom->variable.id] = atom->variable;
    } else {
      atom->inner.collect(variables);
    }
  }
}

Index Index::substitute(const IndexMap& map) const {
  Index result(offset_);
  for (const auto& [coefficient, atom] : terms_) {
    Index value;
    if (atom->kind == AtomKind::variable) {
      const auto found = map.find(atom->variable.id);
      value = found == map.end() ? Index(atom->variable) : found->second;
    } else if (atom->kind == AtomKind::quotient) {
      value = floor_div(atom->inner.substitute(map), atom->divisor);
    } else {
      value = floor_mod(atom->inner.substitute(map), atom->divisor);
    }
    result = result + value * coefficient;
  }
  return result;
}

std::string Index::text() const {
  std::string text;
  for (const auto& [coefficient, atom] : terms_) {
    std::string factor = atom->key;
    if (coefficient != 1) factor += " * " + std::to_string(coefficient);
    text += text.empty() ? factor : " + " + factor;
  }
  if (text.empty()) return std::to_string(offset_);
  return offset_ == 0 ? text : text + " + " + std::to_string(offset_);
}

void Index::add_term(Term term) {
  const auto at = std::lower_bound(
      terms_.begin(), terms_.end(), term,
      [](const Term& a, const Term& b) { return a.atom->key < b.atom->key; });
  if (at != terms_.end() && at->atom->key == term.atom->key) {
    at->coefficient += term.coefficient;
    if (at->coefficient == 0) terms_.erase(at);
  } else if (term.coefficient != 0) {
    terms_.insert(at, std::move(term));
  }
}

// (e / k) * k * c + (e % k) * c is e * c: how a view of a view comes back.
void Index::recombine() {
  for (const Term& rest : terms_) {
    if (rest.atom->kind != AtomKind::remainder) continue;
    const Index quotient = floor_div(rest.atom->inner, rest.atom->divisor);
    if (quotient.terms_.size() != 1 || quotient.offset_ != 0) continue;
    const Term& whole = quotient.terms_[0];
    for (const Term& term : terms_) {
      if (term.atom->key != whole.atom->key ||
          term.coefficient * whole.coefficient !=
              rest.coefficient * rest.atom->divisor ||
          whole.coefficient != 1) {
        continue;
      }
      const Index joined = rest.atom->inner * rest.coefficient;
      std::vector<Term> others;
      for (const Term& other : terms_) {
        if (&other != &rest && &other != &term) others.push_back(other);
      }
      terms_ = std::move(others);
      *this = *this + joined;
      return;
    }
  }
}

void Index::rekey() { key_ = text(); }

Index operator+(const Index& a, const Index& b) {
  Index sum = a;
  sum.offset_ += b.offset_;
  for (const auto& term : b.terms_) sum.add_term(term);
  sum.recombine();
  sum.rekey();
  return sum;
}

Index operator*(const Index& a, std::int64_t factor) {
  Index product(a.offset_ * factor);
  if (factor == 0) return product;
  product.terms_ = a.terms_;
  for (auto& term : product.terms_) term.coefficient *= factor;
  product.rekey();
  return product;
}

Index floor_div(const Index& value, std::int64_t divisor) {
  if (divisor == 1) return value;
  if (value.is_constant()) return Index(value.offset() / divisor);
  if (const auto parts = take_multiples(value, divisor)) {
    return parts->first + floor_div(parts->second, divisor);
  }
  Split split;
  if (find_split(value, divisor, split)) {
    return floor_div(split.outer, divisor / split.scale);
  }
  const auto& terms = value.terms();
  if (terms.size() == 1 && terms[0].coefficient == 1 && value.offset() == 0 &&
      terms[0].atom->kind == Index::AtomKind::quotient) {
    return floor_div(terms[0].atom->inner, terms[0].atom->divisor * divisor);
  }
  const auto [least, most] = value.range();
  if (least >= 0 && most < divisor) return Index(0);
  Index::Atom atom;
  atom.kind = Index::AtomKind::quotient;
  atom.inner = value;
  atom.divisor = divisor;
  atom.key = "((" + value.text() + ") / " + std::to_string(divisor) + ")";
  return Index::of_atom(std::move(atom));
}

Index floor_mod(const Index& value, std::int64_t divisor) {
  if (divisor == 1) return Index(0);
  if (value.is_constant()) return Index(value.offset() % divisor);
  const auto [least, most] = value.range();
  if (least >= 0 && most < divisor) return value;
  if (const auto parts = take_multiples(value, divisor)) {
    return floor_mod(parts->second, divisor);
  }
  Split split;
  if (find_split(value, divisor, split)) {
    return floor_mod(split.outer, divisor / split.scale) * split.scale +
           split.inner;
  }
  Index::Atom atom;
  atom.kind = Index::AtomKind::remainder;
  atom.inner = value;
  atom.divisor = divisor;
  atom.key = "((" + value.text() + ") % " + std::to_string(divisor) + ")";
  return Index::of_atom(std::move(atom));
}

Index flat_offset(const std::vector<Index>& at,
                  const std::vector<std::int64_t>& shape, std::size_t first) {
  Index flat;
  for (std::size_t i = first; i < at.size(); ++i) {
    flat = flat * shape[i] + at[i];
  }
  return flat;
}

std::int64_t elements_of(const Index& index) {
  std::map<int, LoopVar> variables;
  index.collect(variables);
  std::int64_t count = 1;
  for (const auto& [id, variable] : variables) count *= variable.extent;
  return count;
}

}  // namespace weft
