#include "actors/mismatch_text.hpp"

namespace weft {

std::string mismatch_line(const Mismatch& mismatch) {
  std::string text = mismatch.output + "[";
  for (std::size_t i = 0; i < mismatch.index.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(mismatch.index[i]);
  }
  text += "] is " + mismatch.got + ", expected " + mismatch.expected;
  if (!mismatch.error.empty()) text += ", error " + mismatch.error;
  return text;
}

}  // namespace weft
