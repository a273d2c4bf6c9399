#pragma once

#include <optional>
#include <string>

#include "accrue/train/choices.h"

namespace accrue::train {

/// The kind of the model that `from` holds, as far as its files tell: a Hugging Face folder by the
/// model_type of its config.json (of one that this version may not know: llama, whose reader says
/// what is missing), a GGUF file by its architecture (gpt2, else llama), a run folder or a
/// checkpoint in one by the run's config.toml. None for everything else.
std::optional<ModelKind> kind_of_origin(const std::string& from);

}  // namespace accrue::train
