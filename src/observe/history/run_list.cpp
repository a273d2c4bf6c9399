#include "observe/history/run_list.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "accrue/core/error.h"
#include "observe/history/in_parallel.h"
#include "observe/history/run_history.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;

constexpr int deepest_folder = 4;

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> inner;
  std::error_code error;
  fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (!is_hidden && entry->is_directory(unknown)) inner.push_back(entry->path());
  }
  std::ranges::sort(inner);
  return inner;
}

/// Adds the runs in `folder`; `seen` has the real paths of the folders visited so far.
void add_runs(const fs::path& folder, int depth, std::set<fs::path>& seen,
              std::vector<fs::path>& runs) {
  std::error_code error;
  if (!seen.insert(fs::canonical(folder, error)).second || error) return;
  if (is_run(folder)) {
    runs.push_back(folder);
    return;
  }
  if (depth == deepest_folder) return;
  for (const fs::path& inner : folders_in(folder)) add_runs(inner, depth + 1, seen, runs);
}

}  // namespace

std::vector<fs::path> find_runs(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw usage_error("list runs in " + folder.string(), "a folder",
                      fs::exists(folder, error) ? "a file" : "no such folder",
                      "the folder that holds the runs' folders");
  std::set<fs::path> seen;
  std::vector<fs::path> runs;
  add_runs(folder, 0, seen, runs);
  return runs;
}

std::vector<ListedRun> list_runs(const fs::path& folder) {
  const std::vector<fs::path> roots = find_runs(folder);
  std::vector<ListedRun> runs(roots.size());
  in_parallel(roots.size(), [&](std::size_t i) {
    RunHistory run = read_run(roots[i]);
    runs[i] = {roots[i], result_of(run), std::move(run.remarks)};
  });
  std::ranges::stable_sort(runs, std::ranges::greater(),
                           [](const ListedRun& run) { return run.result.started; });
  return runs;
}

}  // namespace accrue::observe
