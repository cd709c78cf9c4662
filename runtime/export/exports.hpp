// A run in the forms of tools that people already have. Each is made of what
// run_view() gathered, so of the journal alone; docs/reference/report.md says
// what is in them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/journal/journal.hpp"
#include "runtime/store/library.hpp"

namespace weft {

/// Trace Event JSON, as Perfetto and chrome://tracing read it: a process a
/// location, a thread a lane. No two slices of a thread overlap.
std::string trace_export(const nlohmann::json& view);

/// One row a candidate, with a head; RFC 4180.
std::string csv_export(const nlohmann::json& view);

/// OTLP as JSON (ExportTraceServiceRequest): a span for the run, for each
/// subgraph, and for each call of a language model, by the GenAI conventions.
/// What was said in a call is not in it.
std::string otlp_export(const nlohmann::json& view);

/// Verified kernels beside what they compute, one JSON object a line.
/// `licence`: of all of them; empty: what the problem's text says, or else its
/// checkout.
std::string pairs_export(const Journal& journal, const nlohmann::json& view,
                         const std::string& licence);

/// The same of a kernel library's entries: what they compute is printed from
/// their signatures. `file` is the library's, for the provenance; those whose
/// signature cannot be read are left out, and counted in `left_out`.
/// A library does not know whose models its kernels are of: `licence`, or
/// unknown.
std::string pairs_of_library(const std::vector<LibraryEntry>& entries,
                             const std::string& file,
                             const std::string& licence, int& left_out);

}  // namespace weft
