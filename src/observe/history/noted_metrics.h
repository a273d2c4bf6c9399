#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accrue::observe {

/// What the checkpoints of the run folder `root` find wrong with its metrics.jsonl: each notes the
/// digest of the lines up to its own step (MetricsRecord). A sentence that follows the file's name;
/// empty if they are as the run wrote them, or no checkpoint notes any. `run_json` holds the
/// resumptions: checkpoints behind the last of them may be of an attempt that was given up, and
/// count only if they agree.
std::string change_of_metrics(const std::filesystem::path& root, const nlohmann::json& run_json);

}  // namespace accrue::observe
