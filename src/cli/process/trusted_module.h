#pragma once

#include <CLI/App.hpp>

#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// Adds --trust-module to a verb that loads the model of a run folder.
inline void add_trust_module(CLI::App& verb, bool& trusts) {
  verb.add_flag("--trust-module", trusts,
                "Load whichever TorchScript module the run folder names, which runs its code: "
                "without it only the one that the run was trained with");
}

inline train::ModuleTrust module_trust(bool trusts) {
  return trusts ? train::ModuleTrust::any : train::ModuleTrust::recorded;
}

}  // namespace accrue::cli
