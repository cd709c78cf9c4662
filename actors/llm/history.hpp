// What was tried before, for the next prompt of a language model: a line for
// each kernel with its idea, its result against its parent and the lesson, and
// the difference that the best failed idea made.
#pragma once

#include <string>

#include "actors/role.hpp"

namespace weft {

/// A kernel's own words, in the comment lines at its top.
struct KernelNotes {
  std::string idea;
  std::string review;
};

/// Those of that file; empty where it has none. Cut to what a line holds.
KernelNotes notes_of(std::string_view python);

/// "wrong", "correct" and so on; "not verified" where the check itself failed,
/// which says nothing of the kernel.
std::string verdict_word(const SeedResult& result);

/// One time that a seed was tried, in a line. `parent`: the kernel that it was
/// to improve; nullptr: none.
std::string tried_line(const SeedResult& result,
                       const SeedResult* parent = nullptr);

/// The lines of all tries, and the difference of the best one that failed.
std::string history_text(const RefineRequest& request, Blobs& blobs);

}  // namespace weft
