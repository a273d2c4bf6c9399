#pragma once

#include <string>
#include <string_view>

#include "accrue/core/stored_tensor.h"

namespace accrue {

/// States of several objects in one list of tensors: the names of each begin with its prefix.
inline void append_state(NamedParameters& to, std::string_view prefix,
                         const NamedParameters& state) {
  for (const auto& [name, tensor] : state) to.push_back({std::string(prefix) + name, tensor});
}

/// The tensors whose names begin with `prefix`, with the rest of their names.
inline StoredTensors state_under(std::string_view prefix, const StoredTensors& all) {
  StoredTensors part;
  for (StoredTensor tensor : all) {
    if (!tensor.name.starts_with(prefix)) continue;
    tensor.name.erase(0, prefix.size());
    part.push_back(std::move(tensor));
  }
  return part;
}

}  // namespace accrue
