#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// What a run's run.json tells of it, for a run that repeats it (RunOptions::repeats).
struct RunRecord;

/// Reads that. Throws a usage Error if the folder holds no run, where its run.json was damaged,
/// and where the run is of a version that kept too little.
std::shared_ptr<const RunRecord> read_run_record(const RunDirectory& run);

/// The run's config, with `overrides` on top (parse_config). If it left the number of threads to
/// the machine, it has as many as the run had. The replica and limits are the run's
/// alone: only an override states one.
Config config_to_repeat(const RunRecord& record, const std::vector<std::string>& overrides = {});

/// Throws a usage Error that names --trust-module where `config`, that of config_to_repeat(), has a
/// TorchScript module that neither an override names nor the run was trained with, by its digest in
/// run.json. To be called before the config is trained with: the module's code runs when it is
/// loaded.
void expect_module_to_repeat(const RunRecord& record, const Config& config,
                             const std::vector<std::string>& overrides = {});

}  // namespace accrue::train
