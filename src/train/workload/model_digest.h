#pragma once

#include <string>

#include "accrue/models/model.h"

namespace accrue::train {

/// A digest of all that the model keeps in a file.
std::string digest_of(const models::Model& model);

/// models::TorchScriptModel::digest(); empty if the model is none.
std::string digest_of_module(const models::Model& model);

}  // namespace accrue::train
