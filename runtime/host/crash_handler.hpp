// What a crash of weft itself says: one line on stderr with the run directory
// and the event that was being processed. The signal then ends the process as
// usual. The journal has every event that was delivered, so the run can be
// resumed. Everything here may be called from any thread.
#pragma once

#include <filesystem>

#include "messages/envelope.hpp"

namespace weft {

/// Handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT from now on, for the
/// process; the program calls it once. Not for processes under a sanitizer,
/// which reports more.
void install_crash_handler();

/// The run directory that the line names. The last call counts.
void set_crash_run(const std::filesystem::path& folder);

/// While it lives, this thread processes that event. Scopes nest; the envelope
/// must outlive its scope. Costs two stores.
class CrashScope {
 public:
  explicit CrashScope(const Envelope& envelope);
  ~CrashScope();
  CrashScope(const CrashScope&) = delete;
  CrashScope& operator=(const CrashScope&) = delete;

 private:
  const Envelope* before_;
};

}  // namespace weft
