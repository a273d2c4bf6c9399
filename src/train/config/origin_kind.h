#pragma once

#include <optional>
#include <string>

#include "accrue/core/error.h"
#include "accrue/train/choices.h"

namespace accrue::train {

/// The kind of the model in `from`, judged by its files: of a Hugging Face folder by the model_type
/// of its config.json (llama for one that this version may not know: its reader reports what is
/// missing), of a GGUF file by its architecture (gpt2, else llama), of a run folder or a checkpoint
/// in one by the run's config.toml. None for everything else.
std::optional<ModelKind> kind_of_origin(const std::string& from);

/// The usage Error of `operation` for a model.from that is no model, with all that it may be.
Error no_model_there(const std::string& operation, const std::string& received);
/// Whether a path leads nowhere; an empty one is none.
bool leads_nowhere(const std::string& from);

}  // namespace accrue::train
