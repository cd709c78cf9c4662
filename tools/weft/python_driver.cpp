#include "tools/weft/python_driver.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

/// Not by PYTHONPATH, which every run would inherit; nor may a file in the
/// working folder stand for a module of the same name.
constexpr const char* kProgram =
    "import importlib, sys\n"
    "sys.path[:] = [sys.argv[1]] + [p for p in sys.path if p]\n"
    "sys.exit(importlib.import_module(sys.argv[2]).main(sys.argv[3]))\n";

}  // namespace

Error become_python(const Installation& installation, const std::string& module,
                    const nlohmann::json& settings) {
  const std::string python = installation.python.string();
  const std::string path = installation.worker_path.string();
  const std::string text =
      settings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.contains("\uFFFD")) {
    return {ErrorCode::wrong_input,
            "a path has bytes that are not UTF-8, and cannot be handed on: "
            "name another"};
  }
  execl(python.c_str(), python.c_str(), "-B", "-c", kProgram, path.c_str(),
        module.c_str(), text.c_str(), nullptr);
  return {ErrorCode::missing,
          "cannot start " + python + ": " + std::strerror(errno)};
}

}  // namespace weft
