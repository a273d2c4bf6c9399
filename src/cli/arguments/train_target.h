#pragma once

#include <string>
#include <vector>

namespace accrue::cli {

/// The subject of `accrue train`, as it was typed.
struct TrainTarget {
  std::string config;             ///< CONFIG; empty: none
  std::vector<std::string> more;  ///< further words, as a pattern that the shell expanded gives
  std::vector<std::string> overrides;  ///< "section.key=value"
};

/// A run's folder in place of a config means its config.toml and its own run.out, if the run is to
/// be resumed. Data mean data.train, or what init takes them for: files and folders named val,
/// valid, dev or test are held out unless an override states what is, and a model folder is
/// model.from. Anything else is returned unchanged. Throws a usage Error if a run is named that is
/// not to be resumed, several words are not all of data, or one does not exist.
TrainTarget resolved(TrainTarget target, bool resumes);

}  // namespace accrue::cli
