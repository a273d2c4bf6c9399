#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/distributed/group.h"

namespace accrue::distributed {

using Words = std::vector<std::string>;
using Scenario = std::function<void(const Launch&, const Words& words)>;

/// The actions of a test's ranks, by name.
const std::map<std::string, Scenario>& scenarios();

/// Returns when all ranks that were started have called it with this `mark`, a file's name.
void line_up(const std::string& mark);

/// Returns when this process's heartbeat has read the store once more, from the beginning on.
void wait_for_heart();

/// The name and the values on a line of stdout.
void print(std::string_view name, const at::Tensor& values);

}  // namespace accrue::distributed
