#pragma once

#include <string>

#include "train/workload/first/first_config.h"

namespace accrue::cli {

/// What a first config goes by.
train::MachineFacts machine_facts();

/// `text` as a comment can have it: what would end the line becomes a question mark.
std::string in_one_line(std::string text);

}  // namespace accrue::cli
