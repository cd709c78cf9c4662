// Server-sent events as bytes arrive: the form in which language models'
// servers stream their replies (WHATWG HTML, section 9.2). One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace weft {

struct SseEvent {
  std::string name;  ///< of the `event` field; empty where there is none
  std::string data;  ///< of all `data` fields, a newline between two
};

class SseParser {
 public:
  using OnEvent = std::function<void(const SseEvent&)>;

  /// Takes the next bytes, cut anywhere, and hands over each event that they
  /// complete. Events without data (comments, keep-alives) are no events.
  void feed(std::string_view bytes, const OnEvent& on_event);

  /// The stream has ended. Servers forget the blank line after the last event:
  /// what there is of one is handed over, whole or not.
  void finish(const OnEvent& on_event);

 private:
  void take_line(const OnEvent& on_event);
  void dispatch(const OnEvent& on_event);
  void skip_byte_order_mark();

  std::string line_;  ///< what has come of the current one
  SseEvent event_;
  bool has_data_ = false;
  bool after_cr_ = false;     ///< a newline now belongs to the line before
  bool at_beginning_ = true;  ///< where a byte order mark may stand
};

}  // namespace weft
