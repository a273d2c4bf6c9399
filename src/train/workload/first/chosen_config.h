#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/long_operation.h"
#include "accrue/train/config.h"
#include "train/workload/first/first_config.h"

namespace accrue::train {

/// A generated config.
struct ChosenConfig {
  std::string page;  ///< reads as `config`, with reasons; empty if a run that is there has its own
  Config config;
};

/// `overrides` with the run's folder stated, and with the standard input replaced by the file that
/// it was saved in (with_standard_input()), so that it can be inspected first. `ranks` is the
/// number of processes that train. Throws as with_standard_input() does.
std::vector<std::string> with_kept_input(std::vector<std::string> overrides, std::int64_t ranks);

/// The config for the data, and perhaps the model, in `overrides`, and with everything else that
/// they state. With `resume` it is that of the run in run.out, if there is one. `command` is for
/// the page's first line, and its first words for errors. Throws a usage Error as inspect_data(),
/// first_config() and parse_config() do.
ChosenConfig choose_config(const std::vector<std::string>& overrides, bool resume,
                           const MachineFacts& machine, const std::string& command,
                           const ShowProgress& show = {});

}  // namespace accrue::train
