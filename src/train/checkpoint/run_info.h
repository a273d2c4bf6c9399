#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/train/config.h"

namespace accrue::train {

/// The time in UTC as ISO 8601 writes it, to the second.
std::string now_iso();
/// The machine's name; empty where the system does not tell.
std::string host_name();

/// run.json of a new run: versions, machine, seed, threads, command, start.
std::string describe_run(const Config& config, const std::vector<std::string>& command);

/// `run_json` with this resumption added to its "resumed" list.
std::string add_resumption(const std::string& run_json, std::int64_t step,
                           const std::vector<std::string>& command);

}  // namespace accrue::train
