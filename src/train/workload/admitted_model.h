#pragma once

#include <memory>

#include "accrue/models/model.h"
#include "accrue/train/config.h"
#include "train/checkpoint/module_digest.h"

namespace accrue::train {

/// make_model_to_load() for the model of a run folder, which may name a TorchScript module: `admit`
/// gets its digest first.
std::unique_ptr<models::Model> make_admitted_model(const Config& config, const AdmitModule& admit);

}  // namespace accrue::train
