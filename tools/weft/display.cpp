#include "tools/weft/display.hpp"

#include <unistd.h>

#include <cstdio>

#include "tools/weft/story.hpp"

namespace weft {
namespace {

/// More lines than this would scroll: then every event is a line of its own.
constexpr std::size_t live_lines_max = 40;
constexpr std::size_t width_max = 78;

}  // namespace

Display::Display(const CommonFlags& flags)
    : quiet_(flags.quiet),
      verbose_(flags.verbose),
      json_(flags.json),
      live_(!flags.json && !flags.quiet && !flags.verbose &&
            isatty(STDOUT_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

void Display::say(const std::string& line) {
  if (quiet_ || json_) return;
  wipe();
  std::printf("%s\n", line.c_str());
  redraw();
  std::fflush(stdout);
}

void Display::show(const Envelope& envelope, const Message& message) {
  if (json_) {
    std::printf("%s\n", story_json(envelope).c_str());
    std::fflush(stdout);
    return;
  }
  if (quiet_) return;
  if (const auto* m = std::get_if<Progress>(&message)) progress(*m);
}

void Display::progress(const Progress& progress) {
  const std::string text = progress.stage + "  " + progress.text;
  if (progress.subgraph.empty()) return say(clock() + text);
  if (!live_ || order_.size() > live_lines_max) {
    return say(clock() + progress.subgraph + "  " + text);
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

void Display::redraw() {
  if (!live_ || order_.size() > live_lines_max) return;
  for (const std::string& id : order_) {
    const std::string line = "        " + id + "  " + lines_[id];
    std::printf("%s\n", line.substr(0, width_max).c_str());
    ++drawn_;
  }
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
