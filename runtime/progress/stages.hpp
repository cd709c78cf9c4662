// How far a run is: it captures the model, works on kernels, and composes the
// whole, one after the other. Fed with a run's envelopes in their order, alive
// or out of a journal; the same of both. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "messages/envelope.hpp"
#include "messages/result.hpp"

namespace weft {

enum class Stage { capture, kernels, compose };
inline constexpr std::size_t kStages = 3;
inline constexpr std::array<const char*, kStages> kStageNames = {
    "capture", "kernels", "compose"};

class Stages {
 public:
  using Text = std::function<Result<std::string>(std::string_view hash)>;

  /// `text` gives a blob's bytes: how many subgraphs there are stands in the
  /// plan. Without it only those that were begun are counted.
  explicit Stages(Text text = {}) : text_(std::move(text)) {}

  void take(const Envelope& envelope);

  /// The run was stopped after what was taken, and goes on at that time: what
  /// lies between was spent on no stage.
  void go_on(std::int64_t now_us);

  /// nullopt: the run has not begun, or is over.
  std::optional<Stage> current() const;
  bool is_over() const { return is_over_; }
  /// By the journal's clock; nullopt: it has not begun, or not ended.
  std::optional<std::int64_t> begun_us(Stage stage) const;
  std::optional<std::int64_t> length_us(Stage stage) const;

  /// Of kernels: subgraphs that have their verdict, of so many; of candidates.
  int subgraphs_done() const { return done_; }
  int subgraphs() const;
  int candidates_judged() const;
  /// 0 to 1, of what is known to be done; of `kernels` alone.
  double kernels_share() const;

 private:
  struct Piece {
    int asked = 0;   ///< candidates that were given to a worker
    int judged = 0;  ///< … and came back
    bool is_done = false;
  };
  void enter(std::size_t stage, std::int64_t at_us);
  void read_plan(const Envelope& envelope);

  Text text_;
  /// When each stage began, and after the last one the run's end.
  std::array<std::optional<std::int64_t>, kStages + 1> begun_;
  std::map<std::string, Piece> pieces_;  ///< by subgraph
  std::int64_t last_us_ = 0;
  int planned_ = 0;
  int done_ = 0;
  bool is_over_ = false;
};

}  // namespace weft
