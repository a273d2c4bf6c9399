#pragma once

#include <string>

#include "accrue/models/model.h"

namespace accrue::train {

/// A digest of everything that the model saves in a file.
std::string digest_of(const models::Model& model);

/// models::TorchScriptModel::digest(); empty for another model.
std::string digest_of_module(const models::Model& model);

}  // namespace accrue::train
