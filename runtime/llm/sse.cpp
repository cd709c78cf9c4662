#include "runtime/llm/sse.hpp"

namespace weft {

void SseParser::feed(std::string_view bytes, const OnEvent& on_event) {
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    // By these two bytes alone: U+2028 and U+0085 are text here.
    const std::size_t end = bytes.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      line_ += bytes;
      return;
    }
    line_ += bytes.substr(0, end);
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    take_line(on_event);
  }
}

void SseParser::finish(const OnEvent& on_event) {
  if (!line_.empty()) take_line(on_event);
  dispatch(on_event);
}

void SseParser::take_line(const OnEvent& on_event) {
  if (at_beginning_) skip_byte_order_mark();
  at_beginning_ = false;
  if (line_.empty()) return dispatch(on_event);
  const std::string_view line = line_;
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  // One space after the colon is not the value's; some servers send none.
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    event_.name = value;
  } else if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
  line_.clear();
}

void SseParser::dispatch(const OnEvent& on_event) {
  if (has_data_) on_event(event_);
  event_.name.clear();
  event_.data.clear();
  has_data_ = false;
}

void SseParser::skip_byte_order_mark() {
  if (line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);
}

}  // namespace weft
