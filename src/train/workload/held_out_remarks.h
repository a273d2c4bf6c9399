#pragma once

#include <string>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::train {

/// Names the files of data.val that data.train has as well, by content: the loss of what was
/// trained on measures memory. Reads what fingerprints read (data::Source::files); of sources of
/// more than 1000 files, whole folders are compared.
std::vector<std::string> held_out_remarks(const Config& config, const Datasets& data);

}  // namespace accrue::train
