#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// Where a report goes by default: into the folder of one run, of several into the current one.
std::filesystem::path default_report_file(const std::vector<std::filesystem::path>& runs);

/// Throws a usage Error unless `file` can become a report: its folder exists, and what is there
/// of its name, if anything, is a report of accrue.
void require_report_place(const std::filesystem::path& file);

/// What was written.
struct WrittenReport {
  std::uintmax_t bytes = 0;
  std::int64_t last_step = 0;        ///< the furthest of the runs
  std::vector<std::string> remarks;  ///< each begins with its run's name
};

/// Reads the runs as they are now and replaces `file` atomically. Throws a usage Error for a folder
/// that is no run and for a place that is none (require_report_place), a runtime Error if the
/// file cannot be written.
WrittenReport write_report(const std::vector<std::filesystem::path>& runs,
                           const std::filesystem::path& file);

}  // namespace accrue::observe
