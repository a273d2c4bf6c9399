#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// The default place of a report: for one run its folder, for several the current folder.
std::filesystem::path default_report_file(const std::vector<std::filesystem::path>& runs);

/// Throws a usage Error unless `file` can become a report: its folder exists, and an existing file
/// of that name is a report of accrue.
void require_report_place(const std::filesystem::path& file);

/// The report that was written.
struct WrittenReport {
  std::uintmax_t bytes = 0;
  std::int64_t last_step = 0;        ///< the furthest of the runs
  std::vector<std::string> remarks;  ///< each begins with its run's name
};

/// Reads the present state of the runs and replaces `file` atomically. Throws a usage Error for a
/// folder that is not a run and for an invalid place (require_report_place), a runtime Error if the
/// file cannot be written.
WrittenReport write_report(const std::vector<std::filesystem::path>& runs,
                           const std::filesystem::path& file);

}  // namespace accrue::observe
