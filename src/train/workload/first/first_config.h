#pragma once

#include <optional>
#include <string>

#include "train/workload/first/data_facts.h"

namespace accrue::train {

/// The relevant properties of the machine.
struct MachineFacts {
  bool multiplies_bf16 = false;  ///< it has instructions for bf16
};

/// The decisions that the user has made already.
struct FirstConfigOptions {
  std::string command;                         ///< for the first line of the config
  std::optional<bool> adapter = std::nullopt;  ///< whether to train an adapter; none: as it fits
};

/// A config that trains these data: TOML with the reason and the unit of each choice next to it,
/// readable by load_config. Model, batch and length are modest: minutes to a few hours of one
/// machine. A pure function. Throws a usage Error if there is too little data.
std::string first_config(const DataFacts& data, const MachineFacts& machine,
                         const FirstConfigOptions& wishes);

}  // namespace accrue::train
