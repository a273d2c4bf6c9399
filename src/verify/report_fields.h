#pragma once

#include <string>
#include <vector>

#include "accrue/verify/report.h"

/// The content of a proof's report, by name: the fields that `accrue verify --json` and the Python
/// package's Report have in common. Each calls `put(name, value)` per field. A value is a bool, a
/// double, a std::string, a list of strings, or a list of what has fields itself.
namespace accrue::proof {

template <class Put>
void each_field(const ParameterError& error, const Put& put) {
  put("name", error.name);
  put("relative_error", error.relative_error);
  put("bound", error.bound);
}

template <class Put>
void each_field(const SmallestFault& fault, const Put& put) {
  put("kind", fault.kind);
  put("relative", fault.relative);
}

template <class Put>
void each_field(const Report& report, const Put& put) {
  std::vector<std::string> causes;
  for (const Cause cause : all_causes(report)) causes.emplace_back(to_string(cause));
  put("equal", report.equal);
  put("conclusive", report.conclusive);
  put("max_relative_error", report.max_relative_error);
  put("bound", report.bound);
  put("cause", std::string(to_string(report.cause)));
  put("causes", causes);
  put("conclusion", conclusion(report));
  put("advice", advice(report));
  put("evidence", report.evidence);
  put("ruled_out", report.ruled_out);
  put("left_out", report.left_out);
  put("smallest_fault", report.smallest_fault);
  put("reference", report.reference);
  put("parameters", report.parameters);
}

}  // namespace accrue::proof
