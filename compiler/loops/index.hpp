// Index expressions: where in a tensor an iteration reads or writes. Affine in
// the loop variables, plus quotients and remainders that views leave behind;
// kept simplified, so that a view that a loop can walk costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// A loop variable: counts 0, 1, … extent - 1.
struct LoopVar {
  int id = 0;
  std::int64_t extent = 1;
  bool operator==(const LoopVar&) const = default;
  auto operator<=>(const LoopVar&) const = default;
};

class Index;
using IndexMap = std::map<int, Index>;

/// offset + Σ coefficient · atom, where an atom is a variable, a quotient or a
/// remainder. Immutable value; equal expressions have equal keys.
class Index {
 public:
  enum class AtomKind { variable, quotient, remainder };
  struct Atom;
  struct Term {
    std::int64_t coefficient = 0;
    std::shared_ptr<const Atom> atom;
  };

  Index(std::int64_t constant = 0)  // NOLINT: a number is one
      : offset_(constant), key_(std::to_string(constant)) {}
  Index(LoopVar variable);  // NOLINT: so is a variable

  std::int64_t offset() const { return offset_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  /// True when every atom is a variable.
  bool is_affine() const;
  /// Smallest and largest value over the variables' ranges (bounds, not tight).
  std::pair<std::int64_t, std::int64_t> range() const;
  /// What stands before that variable; 0 also if it only occurs inside an atom.
  std::int64_t coefficient(int variable) const;
  /// Whether the variable occurs anywhere.
  bool uses(int variable) const;
  /// Whether it occurs inside a quotient or a remainder.
  bool hides(int variable) const;
  void collect(std::map<int, LoopVar>& variables) const;

  Index substitute(const IndexMap& map) const;
  /// C++ text, with v<id> for the variables.
  std::string text() const;
  const std::string& key() const { return key_; }
  bool operator==(const Index& other) const { return key() == other.key(); }

  friend Index operator+(const Index& a, const Index& b);
  friend Index operator*(const Index& a, std::int64_t factor);
  /// Rounded down; the divisor is positive, the value never negative wherever
  /// it matters: under a guard that is false, the result may be anything.
  friend Index floor_div(const Index& value, std::int64_t divisor);
  friend Index floor_mod(const Index& value, std::int64_t divisor);

 private:
  static Index of_atom(Atom atom);
  void add_term(Term term);
  void recombine();
  void rekey();

  std::int64_t offset_ = 0;
  std::vector<Term> terms_;
  std::string key_ = "0";
};

struct Index::Atom {
  AtomKind kind = AtomKind::variable;
  LoopVar variable;
  Index inner;
  std::int64_t divisor = 1;
  std::string key;
};

inline Index operator-(const Index& a, const Index& b) { return a + b * -1; }

/// The row-major place of a point, by its coordinates from `first` on.
Index flat_offset(const std::vector<Index>& at,
                  const std::vector<std::int64_t>& shape,
                  std::size_t first = 0);

/// How many elements its variables walk over.
std::int64_t elements_of(const Index& index);

}  // namespace weft
