#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::observe {

/// The state of the files of which a report is made: another text as soon as one of them is
/// written, replaced, created or removed, and as soon as a run begins or ends, however it ends.
std::string state_of_run_files(const std::vector<std::filesystem::path>& runs);

/// How long to wait before the next check, in seconds, after a report that took
/// `seconds_of_report`: at least one, and long enough that writing takes at most a tenth of a core.
double pause_after(double seconds_of_report);

}  // namespace accrue::observe
