#include "models/files/config/common_keys.h"

#include <algorithm>

namespace accrue::models {
namespace {

/// Whether transformers may read the file instead of config.json, by the version in its name.
bool is_config_of_a_version(std::string_view file) {
  return file.starts_with("config.") && file.ends_with(".json") && file != "config.json";
}

}  // namespace

void check_common_keys(const ConfigFile& config) {
  config.require_none("quantization_config");
  if (!config.is_empty("per_layer_config")) config.require_none("per_layer_config");
  for (const std::string& file :
       config.texts("configuration_files").value_or(std::vector<std::string>()))
    if (is_config_of_a_version(file))
      throw config.wrong("configuration_files", "config.json alone", file);
}

void check_is_causal(const ConfigFile& config) {
  // With null, whether transformers sees the following tokens depends on its kernels.
  if (config.has("is_causal")) config.require("is_causal", true);
}

std::vector<std::string> tanh_gelu_words() {
  return {"gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_python_tanh", "gelu_accurate"};
}

bool is_tanh_gelu(std::string_view word) {
  return std::ranges::any_of(tanh_gelu_words(),
                             [&](const std::string& known) { return known == word; });
}

}  // namespace accrue::models
