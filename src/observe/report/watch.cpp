#include "observe/report/watch.h"

#include <algorithm>

#include "observe/history/run_state.h"

namespace accrue::observe {

std::string state_of_run_files(const std::vector<std::filesystem::path>& runs) {
  namespace fs = std::filesystem;
  std::string state;
  for (const fs::path& run : runs) {
    state += is_claimed(run) ? "claimed;" : "free;";
    for (const char* name : {"run.json", "config.toml", "metrics.jsonl"}) {
      std::error_code missing;
      const auto size = fs::file_size(run / name, missing);
      const auto time = fs::last_write_time(run / name, missing).time_since_epoch().count();
      state += missing ? "-;" : std::to_string(size) + "@" + std::to_string(time) + ";";
    }
  }
  return state;
}

double pause_after(double seconds_of_report) {
  constexpr double shortest = 1, multiple = 9;
  return std::max(shortest, multiple * seconds_of_report);
}

}  // namespace accrue::observe
