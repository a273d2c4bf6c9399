#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The contents of a run's run.json, for a run that repeats it (RunOptions::repeats).
struct RunRecord;

/// Reads the record. Throws a usage Error if the folder holds no run, its run.json is damaged, or
/// the run is of a version that stored too little.
std::shared_ptr<const RunRecord> read_run_record(const RunDirectory& run);

/// The run's config with `overrides` applied (parse_config). If it left the number of threads to
/// the machine, it is that of the run. The replica and limits are left out, unless an override
/// states them.
Config config_to_repeat(const RunRecord& record, const std::vector<std::string>& overrides = {});

/// Throws a usage Error that names --trust-module if `config`, from config_to_repeat(), has a
/// TorchScript module that is neither in an override nor the one of the run, by its digest in
/// run.json. Call it before training with the config: the module's code runs when it is
/// loaded.
void expect_module_to_repeat(const RunRecord& record, const Config& config,
                             const std::vector<std::string>& overrides = {});

}  // namespace accrue::train
