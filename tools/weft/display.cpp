#include "tools/weft/display.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "messages/shown_text.hpp"
#include "runtime/progress/bars.hpp"
#include "tools/weft/envelope_format.hpp"

namespace weft {
namespace {

/// More than this is no overview any more: then every event of a subgraph is a
/// line of its own.
constexpr std::size_t kLiveLinesMax = 40;
constexpr std::size_t kColumnsMax = 78;
/// Bars, and some lines above.
constexpr std::size_t kOtherRows = 8;
/// A bar that stands still says that nothing goes on.
constexpr auto kTick = std::chrono::seconds(1);

std::int64_t system_now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch())
      .count();
}

winsize window() {
  winsize size{};
  // A terminal that does not tell has no size.
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

}  // namespace

Display::Display(const CommonFlags& flags)
    : quiet_(flags.quiet),
      verbose_(flags.verbose),
      json_(flags.json),
      live_(!flags.json && !flags.quiet && !flags.verbose &&
            isatty(STDOUT_FILENO) == 1),
      rows_(window().ws_row > 0 ? window().ws_row : 24),
      columns_(window().ws_col > 1
                   ? std::min<std::size_t>(kColumnsMax, window().ws_col - 1)
                   : kColumnsMax),
      start_(std::chrono::steady_clock::now()) {}

void Display::begin_bars(const RunStart& start,
                         const std::filesystem::path& run, Stages::Text text) {
  if (!live_) return;
  const std::lock_guard lock(mutex_);
  stages_.emplace(std::move(text));
  ticker_ = std::jthread(
      [this, start, run](std::stop_token stop) { tick(start, run, stop); });
}

/// Earlier runs are read here, beside the run: it does not wait for them.
void Display::tick(const RunStart& start, const std::filesystem::path& run,
                   std::stop_token stop) {
  std::vector<EarlierRun> earlier = runs_like(start, run, stop);
  std::unique_lock lock(mutex_);
  earlier_ = std::move(earlier);
  while (!stop.stop_requested()) {
    wipe();
    redraw();
    std::fflush(stdout);
    woken_.wait_for(lock, stop, kTick, [] { return false; });
  }
}

void Display::take(const Envelope& envelope) {
  if (!live_) return;
  const std::lock_guard lock(mutex_);
  if (stages_) stages_->take(envelope);
}

void Display::go_on() {
  const std::lock_guard lock(mutex_);
  if (stages_) stages_->go_on(system_now_us());
}

void Display::say(const std::string& line) {
  const std::lock_guard lock(mutex_);
  say_locked(line);
}

void Display::say_locked(const std::string& line) {
  if (quiet_ || json_) return;
  wipe();
  std::printf("%s\n", terminal_line(line).c_str());
  redraw();
  std::fflush(stdout);
}

void Display::show(const Envelope& envelope, const Message& message) {
  const std::lock_guard lock(mutex_);
  if (json_) {
    std::printf("%s\n", envelope_json(envelope).c_str());
    std::fflush(stdout);
    return;
  }
  if (quiet_) return;
  if (const auto* m = std::get_if<Progress>(&message)) progress(*m);
}

void Display::progress(const Progress& progress) {
  const std::string text = progress.stage + "  " + progress.text;
  if (progress.subgraph.empty()) return say_locked(clock() + text);
  if (!live_ || !fits_on_screen()) {
    return say_locked(clock() + progress.subgraph + "  " + text);
  }
  if (!lines_.contains(progress.subgraph)) order_.push_back(progress.subgraph);
  lines_[progress.subgraph] = text;
  wipe();
  redraw();
  std::fflush(stdout);
}

void Display::wipe() {
  for (; drawn_ > 0; --drawn_) std::printf("\033[1A\033[2K");
}

/// What is above the window's first row cannot be drawn again.
bool Display::fits_on_screen() const {
  return order_.size() <= kLiveLinesMax && order_.size() + kOtherRows <= rows_;
}

void Display::redraw() {
  if (!live_) return;
  if (fits_on_screen()) {
    for (const std::string& id : order_)
      draw("        " + id + "  " + lines_[id]);
  }
  if (!stages_) return;
  for (const std::string& line : bars(*stages_, earlier_, system_now_us())) {
    draw(line);
  }
}

void Display::draw(const std::string& line) {
  const std::string first = terminal_line(line.substr(0, line.find('\n')));
  std::printf("%s\n", first.substr(0, columns_).c_str());
  ++drawn_;
}

std::string Display::clock() const {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_)
          .count();
  char text[32];
  std::snprintf(text, sizeof text, "%6.1fs ", seconds);
  return text;
}

}  // namespace weft
