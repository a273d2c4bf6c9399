#pragma once

#include <string>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::train {

/// Names the classes of images of which none is trained on, as all are held out.
std::vector<std::string> class_remarks(const Datasets& data);

}  // namespace accrue::train
