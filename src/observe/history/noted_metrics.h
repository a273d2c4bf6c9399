#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accrue::observe {

/// The changes in the metrics.jsonl of the run folder `root` that its checkpoints show: each has
/// the digest of the lines up to its own step (MetricsRecord). A sentence that follows the file's
/// name; empty if the lines are as the run wrote them, or no checkpoint has a digest. `run_json`
/// has the resumptions: checkpoints after the last of them may belong to an abandoned attempt, and
/// count only if they agree.
std::string change_of_metrics(const std::filesystem::path& root, const nlohmann::json& run_json);

}  // namespace accrue::observe
