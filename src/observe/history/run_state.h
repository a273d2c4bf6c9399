#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// Whether a living process holds the run's claim, the lock on its file .accrue-lock. A process
/// that claims the run at the very moment of the question waits a moment for the answer. Where
/// locks are unknown to the file system, the process that the file names has to be alive.
bool is_claimed(const std::filesystem::path& root);

/// The state of a run that nobody holds: what its run.json says of its last end (`ended`), unless
/// the run was resumed since; else whether it has come to `total_steps`.
RunState state_when_left(const nlohmann::json& run, std::optional<std::int64_t> total_steps,
                         std::optional<std::int64_t> last_step);

}  // namespace accrue::observe
