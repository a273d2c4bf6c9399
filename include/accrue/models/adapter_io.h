#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "accrue/models/language_model.h"

namespace accrue::models {

// Adapters in the file layout of PEFT: adapter_config.json, and adapter_model.safetensors with
// "base_model.model." before the names of the parameters here.

/// Whether the parameter `name` belongs to an adapter.
bool is_adapter_name(std::string_view name);

/// Reads the adapters of such a folder: rank, alpha and kind from its config, targets from its
/// tensors. Throws a usage Error naming the file and the key or tensor if Llama and Gpt2 do not
/// support it: other kinds of adapters, additional whole modules (modules_to_save), trained biases,
/// ranks by layer, or an initialisation that changes the base's weights.
AdapterOptions read_adapter_options(const std::filesystem::path& folder);

/// Copies the tensors of such a folder into a model with those adapters. Throws a usage Error that
/// names the first tensor that is missing, extra or misshapen (for example of another base);
/// nothing is changed then.
void load_adapter_folder(const std::filesystem::path& folder, LanguageModel& model);

/// Writes a folder that PEFT loads onto the base, which adapter_config.json names as `base`. The
/// folder is created if it does not exist. Throws a usage Error if it already contains an adapter,
/// or if the model has no adapters.
void save_adapter_folder(const std::filesystem::path& folder, const LanguageModel& model,
                         const std::string& base);

/// The parameters as a model without adapters has them, in the masters' dtype: the adapters are
/// added to their weights, each at the time when it is copied. Without adapters, these are the
/// parameters.
StoredTensors merged_parameters(const LanguageModel& model);

}  // namespace accrue::models
