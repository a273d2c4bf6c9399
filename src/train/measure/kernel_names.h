#pragma once

#include <string>
#include <string_view>

namespace accrue::train {

/// The readable form of a kernel's at::RecordFunction name: "aten::add_" -> "add_", "AddBackward0"
/// -> "Add backward", a C++ type -> its last name. Accrue's own names stay as they are.
std::string readable_kernel(std::string_view name);

/// The part of training that a kernel (by its readable name) belongs to: "linear forward",
/// "attention backward", "loss", "optimizer", ...
std::string part_of(std::string_view kernel, bool in_backward);

}  // namespace accrue::train
