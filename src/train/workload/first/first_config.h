#pragma once

#include <optional>
#include <string>

#include "train/workload/first/data_facts.h"

namespace accrue::train {

/// What the machine tells.
struct MachineFacts {
  bool multiplies_bf16 = false;  ///< it has instructions for that
};

/// What whoever asks for a config has decided already.
struct FirstWishes {
  std::string command;                         ///< how the config came to be, for its first line
  std::optional<bool> adapter = std::nullopt;  ///< whether an adapter is trained; none: as it fits
};

/// A config that trains these data: TOML with the reason and the unit of each choice beside it, as
/// load_config reads it. Model, batch and length are modest: minutes to a few hours of one machine.
/// It is pure. Throws a usage Error if there is too little data.
std::string first_config(const DataFacts& data, const MachineFacts& machine,
                         const FirstWishes& wishes);

}  // namespace accrue::train
