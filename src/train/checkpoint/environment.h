#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace accrue::train {

/// The machine's name; empty if the system does not report one.
std::string host_name();

/// Conditions that a run's numbers may depend on, apart from its config and its data.
struct RunEnvironment {
  std::map<std::string, std::string> versions;  ///< accrue, libtorch, gemm
  std::string host, processor, isa;
  std::int64_t threads = 0;  ///< of each rank
  std::int64_t ranks = 1;
  std::map<std::string, std::string> libraries;  ///< loaded_libraries()
  std::string working_directory;
  std::optional<std::string> commit;  ///< commit_of(working_directory)
};

/// The environment of this process, which is one of `ranks`.
RunEnvironment present_environment(std::int64_t ranks);

/// The environment as run.json stores it: `versions`, `machine{host processor isa threads}`,
/// `ranks`, `libraries`, `working_directory`, `commit` (absent if there is none).
nlohmann::json to_json(const RunEnvironment& environment);
/// Reads that back. Throws a json::exception if something is missing or has another type.
RunEnvironment environment_from_json(const nlohmann::json& run);

}  // namespace accrue::train
