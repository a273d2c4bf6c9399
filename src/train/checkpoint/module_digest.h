#pragma once

#include <functional>
#include <string>

#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// Receives the digest of a module before any of its code runs (models::TorchScriptOptions::admit).
using AdmitModule = std::function<void(const std::string& digest)>;

/// Throws a usage Error that names --trust-module unless the module of `config`, which a run folder
/// names, is the one that the run was trained with: `recorded` is its digest in run.json, empty if
/// run.json has none. The error begins with `operation`.
AdmitModule admission_of_module(const Config& config, const std::string& recorded,
                                const std::string& operation);

/// Throws the same error if the module's file has changed, before it is loaded.
void expect_recorded_module(const Config& config, const std::string& recorded,
                            const std::string& operation);

/// The digest in a run's run.json; empty if there is none.
std::string recorded_module(const RunDirectory& run);

}  // namespace accrue::train
