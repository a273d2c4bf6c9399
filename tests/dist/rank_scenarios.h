#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accrue/dist/group.h"

namespace accrue::dist {

using Words = std::vector<std::string>;
using Scenario = std::function<void(const Launch&, const Words& words)>;

/// What the ranks of a test do, by name.
const std::map<std::string, Scenario>& scenarios();

}  // namespace accrue::dist
