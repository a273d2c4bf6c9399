#pragma once

#include <string>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::train {

/// Names the image classes without training samples, as all of theirs are held out.
std::vector<std::string> class_remarks(const Datasets& data);

}  // namespace accrue::train
