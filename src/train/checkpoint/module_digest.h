#pragma once

#include <filesystem>
#include <string>

#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The file whose code runs when the model of `config` is made: a TorchScript module. Empty where
/// there is none.
std::filesystem::path module_of(const Config& config);

/// "sha256:" and 64 hexadecimal digits of the file of module_of(); empty where there is none.
/// Throws a usage Error where the file cannot be read.
std::string digest_of_module(const Config& config);

/// Throws a usage Error that names --trust-module unless the module of `config`, which a run folder
/// names, is the one that the run was trained with: `recorded` is its digest in run.json, empty
/// where that has none. To be called before the module is loaded; `operation` begins the error.
void expect_recorded_module(const Config& config, const std::string& recorded,
                            const std::string& operation);

/// The digest in a run's run.json; empty where there is none.
std::string recorded_module(const RunDirectory& run);

}  // namespace accrue::train
