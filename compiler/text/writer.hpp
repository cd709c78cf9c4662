// C++ under construction: lines with indentation.
#pragma once

#include <string>

namespace weft {

class Writer {
 public:
  void line(const std::string& content) {
    out_ += std::string(2 * depth_, ' ') + content + "\n";
  }
  void open(const std::string& content) {
    line(content.empty() ? "{" : content + " {");
    ++depth_;
  }
  void close(const std::string& tail = "}") {
    --depth_;
    line(tail);
  }
  /// Closes a block, and opens the one that is taken otherwise.
  void otherwise(const std::string& content) {
    close("} else " + content + (content.empty() ? "{" : " {"));
    ++depth_;
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
  int depth_ = 0;
};

}  // namespace weft
