// Environment variables of a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace weft {

/// A variable with another value until the end of the test.
class Variable {
 public:
  Variable(std::string name, const std::string& value)
      : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    setenv(name_.c_str(), value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  ~Variable() {
    if (before_) {
      setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace weft
