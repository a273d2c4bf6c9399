#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "accrue/models/language_model.h"

namespace accrue::models {

// Adapters in the layout of the library PEFT: adapter_config.json, and adapter_model.safetensors
// with "base_model.model." before the names of the parameters here.

/// Whether a parameter of this name belongs to an adapter.
bool is_adapter_name(std::string_view name);

/// The adapters that such a folder holds: rank, alpha and kind as its config states them, targets
/// by the tensors that there are. Throws a usage Error naming the file and the key or tensor where
/// it is not what Llama and Gpt2 have: other kinds of adapters, whole modules besides
/// (modules_to_save), trained biases, ranks by layer, or a start that changes the base's weights.
AdapterOptions read_adapter_options(const std::filesystem::path& folder);

/// Copies such a folder's tensors into a model with those adapters. Throws a usage Error that names
/// the first tensor which is missing, extra or misshapen, as those of another base are; nothing is
/// changed then.
void load_adapter_folder(const std::filesystem::path& folder, LanguageModel& model);

/// Writes a folder that PEFT loads onto the base, which adapter_config.json names as `base`. The
/// folder is created if it does not exist; an adapter that is in it already is a usage Error,
/// and so is a model without adapters.
void save_adapter_folder(const std::filesystem::path& folder, const LanguageModel& model,
                         const std::string& base);

/// The parameters of a model with these adapters as one without has them, in the masters' dtype:
/// each weight with its adapter added in it, made when it is copied. Without adapters, the
/// parameters.
StoredTensors merged_parameters(const LanguageModel& model);

}  // namespace accrue::models
