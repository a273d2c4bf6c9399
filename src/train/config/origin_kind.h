#pragma once

#include <optional>
#include <string>

#include "accrue/train/choices.h"

namespace accrue::train {

/// The kind of the model in `from`, judged by its files: of a Hugging Face folder by the model_type
/// of its config.json (llama for one that this version may not know: its reader reports what is
/// missing), of a GGUF file by its architecture (gpt2, else llama), of a run folder or a checkpoint
/// in one by the run's config.toml. None for everything else.
std::optional<ModelKind> kind_of_origin(const std::string& from);

}  // namespace accrue::train
