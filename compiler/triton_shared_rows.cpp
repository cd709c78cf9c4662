// Rows too long for one program, read from memory once: each program holds a
// piece of a row in registers, and the programs of a row tell each other what
// their pieces fold to.
//
// Programs draw tickets, so that those of one row begin one after the other,
// whatever the order in which the device starts them. As the device runs at
// least as many at a time as a row has pieces, the earliest row that is not
// done always has all its programs under way: nobody waits for ever. Triton's
// interpreter runs one program after the other and cannot do this.
#include <algorithm>

#include "compiler/triton_nest_text.hpp"

namespace weft {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

constexpr std::int64_t piece_min = 8192;
constexpr std::int64_t piece_max = 32768;

}  // namespace

std::int64_t NestText::piece() const {
  for (std::int64_t piece = piece_min; piece <= piece_max; piece *= 2) {
    if (ceil_div(longest(), piece) <= facts_.sms) return piece;
  }
  return 0;
}

bool NestText::shares_rows() const {
  if (!variant_.shares_rows || nest_.columns || nest_.split ||
      longest() <= piece_min || piece() == 0) {
    return false;
  }
  const Pass* first = nullptr;
  int walks = 0;
  for (const Pass& pass : passes_) {
    if (pass.inner.empty()) continue;
    if (pass.scan() != nullptr) return false;
    if (first == nullptr) first = &pass;
    if (pass.inner != first->inner) return false;
    ++walks;
  }
  return walks > 1;
}

void NestText::print_shared_rows() {
  const std::int64_t points = extent_of(nest_.outer);
  const std::int64_t piece = this->piece();
  const std::int64_t pieces = ceil_div(longest(), piece);
  const auto folding = std::count_if(passes_.begin(), passes_.end(),
                                     [](const Pass& p) { return p.folds(); });
  const std::string done = "done" + text(module_.launches.size());
  module_.scratch.push_back({done, 1 + points * folding, DType::i32});
  module_.shares_rows = true;
  print_clearing(done, 1 + points * folding);
  TritonKernel kernel(program(), module_);
  kernel.set_wide(needs_wide(program(), nest_));
  kernel.use(done);
  kernel.line("ticket = tl.atomic_add(" + done + ", 1)");
  const std::string wide = kernel.wide() ? ".to(tl.int64)" : "";
  kernel.line("p = (ticket // " + text(pieces) + ")" + wide);
  kernel.line("piece = ticket % " + text(pieces));
  kernel.name_variables(nest_.outer, "p", Axis::none, "");
  const Tile tile{1, piece};
  bool opened = false;
  std::int64_t meeting = 0;
  for (const Pass& pass : passes_) {
    if (pass.inner.empty()) {
      print_points(kernel, pass, tile);
      continue;
    }
    if (!opened) {
      open_inner(kernel, pass.inner, "piece * " + text(piece), piece,
                 longest() % piece != 0);
      opened = true;
    }
    std::vector<TritonFold> folds;
    for (const Stage* stage : pass.folding()) {
      folds.emplace_back(program(), *stage);
    }
    print_tile(kernel, pass, folds, tile, true);
    if (folds.empty()) continue;
    const std::string flag =
        done + " + 1 + p * " + text(folding) + " + " + text(meeting++);
    meet(kernel, folds, flag, pieces);
    std::size_t at = 0;
    for (const Stage* stage : pass.folding()) {
      folds[at].conclude(kernel);
      spill(kernel, *stage, folds[at++]);
    }
  }
  kernel.finish(points * pieces, warps_for(piece, variant_.per_thread));
}

void NestText::print_clearing(const std::string& done, std::int64_t count) {
  constexpr std::int64_t block = 1024;
  TritonKernel kernel(program(), module_);
  kernel.use(done);
  kernel.line("i = tl.program_id(0) * " + text(block) + " + tl.arange(0, " +
              text(block) + ")");
  kernel.line("tl.store(" + done + " + i, tl.zeros((" + text(block) +
              ",), tl.int32), mask=i < " + text(count) + ")");
  kernel.finish(ceil_div(count, block), 4);
}

// Each program writes what its piece came to, waits until all of its row have,
// and folds these.
void NestText::meet(TritonKernel& kernel, const std::vector<TritonFold>& folds,
                    const std::string& flag, std::int64_t pieces) {
  const std::int64_t width = power_of_two(pieces);
  const std::int64_t points = extent_of(nest_.outer);
  const auto part = [](const TritonFold& fold, std::size_t i) {
    return "part" + fold.names()[i].substr(1);
  };
  for (const TritonFold& fold : folds) {
    for (std::size_t i = 0; i < fold.names().size(); ++i) {
      module_.scratch.push_back(
          {part(fold, i), points * pieces, i == 0 ? fold.held() : DType::i32});
      kernel.use(part(fold, i));
      kernel.line("tl.store(" + part(fold, i) + " + (p * " + text(pieces) +
                  " + piece) + tl.zeros((1, 1), tl.int32), " + fold.names()[i] +
                  ")");
    }
  }
  kernel.line("tl.debug_barrier()");
  kernel.line("here = tl.atomic_add(" + flag + ", 1, sem=\"acq_rel\") + 1");
  kernel.line("while here < " + text(pieces) + ":");
  kernel.indent();
  kernel.line("here = tl.atomic_add(" + flag + ", 0, sem=\"acquire\")");
  kernel.dedent();
  kernel.line("tl.debug_barrier()");
  kernel.line("others = tl.arange(0, " + text(width) + ")[None, :]");
  for (const TritonFold& fold : folds) {
    std::vector<std::string> values;
    for (std::size_t i = 0; i < fold.names().size(); ++i) {
      const std::string mask = width == pieces
                                   ? ""
                                   : ", mask=others < " + text(pieces) +
                                         ", other=" + fold.neutral(i);
      values.push_back(fold.names()[i]);
      kernel.line(values.back() + " = tl.load(" + part(fold, i) + " + (p * " +
                  text(pieces) + " + others)" + mask + ", volatile=True)");
    }
    fold.reduce(kernel, values);
  }
}

}  // namespace weft
