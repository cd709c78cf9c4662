#include "runtime/progress/stages.hpp"

#include <algorithm>

#include "compiler/graph/subgraph.hpp"
#include "messages/vocabulary.hpp"

namespace weft {
namespace {

/// "worker/ID.SEED" -> "ID".
std::string subgraph_of(const Address& worker) {
  const std::string instance = instance_of(worker);
  return instance.substr(0, instance.find('.'));
}

}  // namespace

void Stages::enter(std::size_t stage, std::int64_t at_us) {
  if (!begun_[stage]) begun_[stage] = at_us;
}

void Stages::go_on(std::int64_t now_us) {
  const std::int64_t gap = std::max<std::int64_t>(0, now_us - last_us_);
  for (auto& begun : begun_) {
    if (begun) *begun += gap;
  }
}

void Stages::take(const Envelope& envelope) {
  last_us_ = envelope.at_us;
  const std::string_view type = envelope.type;
  if (type == RunStart::name) {
    enter(0, envelope.at_us);
  } else if (type == Dispatch::name) {
    enter(1, envelope.at_us);
    read_plan(envelope);
  } else if (type == OptimizeSubgraph::name &&
             kind_of(envelope.dst) == "agent") {
    pieces_[instance_of(envelope.dst)];
  } else if (type == VerifySeed::name) {
    ++pieces_[subgraph_of(envelope.dst)].asked;
  } else if (type == SeedResult::name && kind_of(envelope.src) == "worker") {
    ++pieces_[subgraph_of(envelope.src)].judged;
  } else if (type == SubgraphDone::name) {
    Piece& piece = pieces_[instance_of(envelope.src)];
    if (!piece.is_done) ++done_;
    piece.is_done = true;
  } else if (type == Compose::name) {
    enter(2, envelope.at_us);
  } else if (type == RunFinished::name) {
    enter(kStages, envelope.at_us);
    is_over_ = true;
  }
}

void Stages::read_plan(const Envelope& envelope) {
  if (!text_) return;
  const auto message = decode(envelope.type, envelope.body);
  const auto* dispatch = message ? std::get_if<Dispatch>(&*message) : nullptr;
  const auto text =
      dispatch ? text_(dispatch->plan) : fail(ErrorCode::missing, "");
  const auto plan = text ? parse_plan(*text) : fail(ErrorCode::missing, "");
  if (plan) planned_ = static_cast<int>(all_subgraphs(*plan).size());
}

std::optional<Stage> Stages::current() const {
  if (is_over_) return std::nullopt;
  for (std::size_t i = kStages; i-- > 0;) {
    if (begun_[i]) return static_cast<Stage>(i);
  }
  return std::nullopt;
}

std::optional<std::int64_t> Stages::begun_us(Stage stage) const {
  return begun_[static_cast<std::size_t>(stage)];
}

std::optional<std::int64_t> Stages::length_us(Stage stage) const {
  const auto i = static_cast<std::size_t>(stage);
  if (!begun_[i] || !begun_[i + 1]) return std::nullopt;
  return std::max<std::int64_t>(0, *begun_[i + 1] - *begun_[i]);
}

int Stages::subgraphs() const {
  return std::max(planned_, static_cast<int>(pieces_.size()));
}

int Stages::candidates_judged() const {
  int judged = 0;
  for (const auto& [id, piece] : pieces_) judged += piece.judged;
  return judged;
}

double Stages::kernels_share() const {
  if (begun_[2]) return 1;
  const int all = subgraphs();
  if (all == 0) return 0;
  double share = 0;
  for (const auto& [id, piece] : pieces_) {
    // One more than was asked for: the best is timed once more at last.
    share += piece.is_done ? 1 : piece.judged / (piece.asked + 1.0);
  }
  return std::min(1.0, share / all);
}

}  // namespace weft
