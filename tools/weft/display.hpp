// What a person watches while a run goes on: on a terminal one live line a
// subgraph and a bar a stage, elsewhere a line an event; with --json an object
// an event.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/vocabulary.hpp"
#include "runtime/progress/earlier_runs.hpp"
#include "runtime/progress/stages.hpp"
#include "tools/weft/commands.hpp"

namespace weft {

/// Any thread.
class Display {
 public:
  explicit Display(const CommonFlags& flags);

  /// Whether it draws in place: only then do bars want each envelope.
  bool is_live() const { return live_; }

  /// From here on there are bars. `run` is its directory: runs beside it tell
  /// how long this one may take. `text` as in Stages.
  void begin_bars(const RunStart& start, const std::filesystem::path& run,
                  Stages::Text text);

  /// Any envelope of the run, in order.
  void take(const Envelope& envelope);

  /// All of a stopped run's were taken: it goes on now.
  void go_on();

  /// One to the user.
  void show(const Envelope& envelope, const Message& message);

  /// A line that is no event, such as the run's folder; not with --quiet.
  void say(const std::string& line);

 private:
  void say_locked(const std::string& line);
  void progress(const Progress& progress);
  void tick(const RunStart& start, const std::filesystem::path& run,
            std::stop_token stop);
  bool fits_on_screen() const;
  void redraw();
  void draw(const std::string& line);
  void wipe();
  std::string clock() const;

  bool quiet_;
  bool verbose_;
  bool json_;
  bool live_;  ///< redraws in place
  std::size_t rows_;
  std::size_t columns_;
  std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;  ///< of all that follows
  std::condition_variable_any woken_;
  std::vector<std::string> order_;  ///< subgraphs, first come first
  std::map<std::string, std::string> lines_;
  std::size_t drawn_ = 0;
  std::optional<Stages> stages_;
  std::vector<EarlierRun> earlier_;
  std::jthread ticker_;  ///< last: it ends before what it uses
};

}  // namespace weft
