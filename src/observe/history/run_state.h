#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// Whether a living process holds the run's claim, the lock on its file .accrue-lock. A process
/// that claims the run at this very moment has to wait a moment. If the file system does not
/// support locks, the process that the file names has to be alive.
bool is_claimed(const std::filesystem::path& root);

/// The state of a run that no process holds: the last end in its run.json (`ended`), unless the run
/// was resumed since; else whether it has reached `total_steps`.
RunState state_when_left(const nlohmann::json& run, std::optional<std::int64_t> total_steps,
                         std::optional<std::int64_t> last_step);

}  // namespace accrue::observe
