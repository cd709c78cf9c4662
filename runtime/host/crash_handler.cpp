#include "runtime/host/crash_handler.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <string_view>

namespace weft {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t kStackBytes = 64 << 10;
constexpr std::size_t kPathMax = 4096;

// Fixed memory: a handler may not allocate.
std::array<char, kPathMax> run_folder{};
std::atomic<std::size_t> run_folder_size = 0;
std::atomic<std::uint64_t> last_event = 0;
thread_local const Envelope* current = nullptr;

// A stack that overflowed has no room for the handler. One thread's: CAF's
// threads have their own, and there an overflow says nothing.
alignas(16) std::array<char, kStackBytes> handler_stack;

/// One line, built in place.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t capacity = text_.size() - size_;
    const std::size_t taken = std::min(capacity, text.size());
    std::memcpy(text_.data() + size_, text.data(), taken);
    size_ += taken;
    return *this;
  }
  Line& operator<<(std::uint64_t number) {
    std::array<char, 20> digits;
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), number);
    return *this << std::string_view(digits.data(), end.ptr);
  }
  void write_to(int file) const {
    std::size_t done = 0;
    while (done < size_) {
      const ssize_t wrote = ::write(file, text_.data() + done, size_ - done);
      if (wrote <= 0) return;
      done += static_cast<std::size_t>(wrote);
    }
  }

 private:
  std::array<char, 2 * kPathMax + 1024> text_;
  std::size_t size_ = 0;
};

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGABRT";
  }
}

void say_event(Line& line) {
  if (const Envelope* event = current) {
    line << " in event " << event->seq << " (" << event->type << " to "
         << event->dst << ")";
  } else if (last_event > 0) {
    line << " after event " << last_event.load(std::memory_order_relaxed);
  }
}

void handle(int signal) {
  Line line;
  line << "weft: internal error: " << name_of(signal);
  say_event(line);
  if (const std::size_t size = run_folder_size) {
    const std::string_view folder(run_folder.data(), size);
    line << ", run " << folder << "; report this line. Continue the run with "
         << "'weft resume " << folder << "'";
  }
  line << "\n";
  line.write_to(STDERR_FILENO);
  // SA_RESETHAND: the signal now ends the process, with a core where wanted.
  raise(signal);
}

}  // namespace

void install_crash_handler() {
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = &handle;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void set_crash_run(const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto whole = std::filesystem::absolute(folder, ignored).string();
  run_folder_size = 0;
  const std::size_t size = std::min(whole.size(), run_folder.size());
  std::memcpy(run_folder.data(), whole.data(), size);
  run_folder_size = size;
}

CrashScope::CrashScope(const Envelope& envelope) : before_(current) {
  current = &envelope;
  last_event.store(envelope.seq, std::memory_order_relaxed);
}

CrashScope::~CrashScope() { current = before_; }

}  // namespace weft
