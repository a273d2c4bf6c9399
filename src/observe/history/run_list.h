#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "observe/history/run_result.h"

namespace accrue::observe {

struct ListedRun {
  std::filesystem::path root;
  RunResult result;
  std::vector<std::string> remarks;  ///< those of read_run()
};

/// The run folders in `folder`, including itself, down to four folders deep and not within runs;
/// each once, in the order of their paths. Hidden folders are left out, and so are those that
/// cannot be read; links to folders are followed. Throws a usage Error if `folder` is not a folder.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

/// The results of the runs in find_runs(), the one that started last first.
std::vector<ListedRun> list_runs(const std::filesystem::path& folder);

}  // namespace accrue::observe
