#pragma once

#include <optional>
#include <string>
#include <vector>

namespace accrue::cli {

/// The subject of `accrue train`, as it was typed.
struct TrainTarget {
  std::string config;                  ///< CONFIG; empty: none
  std::vector<std::string> overrides;  ///< "section.key=value"
};

/// A run's folder in place of a config means its config.toml and its own run.out, if the run is to
/// be resumed; a file of data means data.train. Anything else is returned unchanged. Throws a usage
/// Error if a run is named that is not to be resumed.
TrainTarget resolved(TrainTarget target, bool resumes);

}  // namespace accrue::cli
