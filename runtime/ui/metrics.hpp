// Runs as numbers, in Prometheus's text format (version 0.0.4).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "runtime/ui/run_index.hpp"

namespace weft {

class Metrics {
 public:
  /// All of the run's samples, as they are now.
  void add(RunIndex::Run& run);

  std::string text() const;

 private:
  void sample(const char* name, const std::string& labels, double value,
              const char* end = "");
  template <class Map>
  void sample_all(const char* name, const std::string& labels,
                  const char* label_name, const Map& map);
  void add_broker(RunIndex::Run& run, const std::string& labels);

  std::map<std::string, std::string> samples_;  ///< by family
};

/// A label's value, between its quotes.
std::string escaped_label(std::string_view text);

}  // namespace weft
