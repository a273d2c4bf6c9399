#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::observe {

/// What the files that a report is made of are like now: another text as soon as one of them is
/// written, replaced, made or removed, and as soon as a run begins or ends, however it ends.
std::string state_of_run_files(const std::vector<std::filesystem::path>& runs);

/// How long to wait before looking again, in seconds, after a report that took `seconds_of_report`:
/// at least one, and so long that writing takes no more than a tenth of one core.
double pause_after(double seconds_of_report);

}  // namespace accrue::observe
