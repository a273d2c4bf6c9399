#include "models/files/config/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/files/config/config_file.h"

namespace accrue::models {
namespace {

constexpr const char* fitting_adapter =
    "an adapter of PEFT's kind LORA on linear layers alone, or merging it into its base with PEFT";

/// Refuses anything that is trained or added besides plain factors of one rank.
void expect_plain(const ConfigFile& config) {
  config.require_one_of("peft_type", {"LORA"});
  if (!config.is_null_or_absent("bias")) config.require_one_of("bias", {"none"});
  for (const char* key : {"modules_to_save", "layer_replication", "trainable_token_indices",
                          "target_parameters", "alora_invocation_tokens", "arrow_config"})
    if (!config.is_empty(key)) config.require_none(key);
  for (const char* key : {"rank_pattern", "alpha_pattern"})
    if (!config.is_empty(key)) throw config.wrong(key, "{}, one for all layers", "others by layer");
  for (const char* key : {"lora_bias", "use_qalora"})
    if (config.flag_or(key, false)) throw config.wrong(key, "false", "true");
}

/// Some initialisations of an adapter subtract its initial product from the base's weights.
void expect_base_untouched(const ConfigFile& config) {
  constexpr const char* key = "init_lora_weights";
  if (config.is_null_or_absent(key) || config.is_flag(key)) return;
  config.require_one_of(key, {"gaussian", "eva", "orthogonal", "mica"});
}

bool ends_in(const std::string& name, const std::string& word) {
  return name == word || name.ends_with('.' + word);
}

/// Whether PEFT finds exactly those of `linear` that end in `word` and are in `adapted`.
bool finds_only(const std::string& word, const std::set<std::string>& adapted,
                const std::vector<std::string>& linear) {
  return std::all_of(linear.begin(), linear.end(), [&](const std::string& name) {
    return !ends_in(name, word) || adapted.contains(name);
  });
}

/// The shortest suffix of `name`, in whole parts, that matches only adapted layers.
std::string shortest_end(const std::string& name, const std::set<std::string>& adapted,
                         const std::vector<std::string>& linear) {
  for (std::size_t dot = name.rfind('.'); dot != name.npos && dot > 0;
       dot = name.rfind('.', dot - 1)) {
    std::string end = name.substr(dot + 1);
    if (finds_only(end, adapted, linear)) return end;
  }
  return name;
}

}  // namespace

AdapterOptions parse_adapter_config(const std::string& json, const std::string& file) {
  const ConfigFile config(json, file, fitting_adapter);
  expect_plain(config);
  expect_base_untouched(config);
  AdapterOptions options;
  options.rank = config.count("r");
  options.alpha = config.positive("lora_alpha");
  if (config.flag_or("use_dora", false)) options.kind = AdapterKind::dora;
  options.rank_stabilised = config.flag_or("use_rslora", false);
  return options;
}

std::vector<std::string> target_modules(const std::vector<std::string>& adapted,
                                        const std::vector<std::string>& linear) {
  const std::set<std::string> wanted(adapted.begin(), adapted.end());
  std::set<std::string> words;
  for (const std::string& name : adapted) words.insert(shortest_end(name, wanted, linear));
  return {words.begin(), words.end()};
}

std::string make_adapter_config(const AdapterOptions& options, const std::string& base,
                                const std::vector<std::string>& adapted,
                                const std::vector<std::string>& linear) {
  const bool transposed = adapted.front().find(".attn.c_") != std::string::npos ||
                          adapted.front().find(".mlp.c_") != std::string::npos;
  const double alpha = options.alpha_or_usual();
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", base},
      {"r", options.rank},
      {"lora_alpha", alpha},
      {"lora_dropout", options.dropout},
      {"target_modules", target_modules(adapted, linear)},
      {"use_dora", options.kind == AdapterKind::dora},
      {"use_rslora", options.rank_stabilised},
      {"fan_in_fan_out", transposed},
      {"bias", "none"},
      {"modules_to_save", nullptr},
      {"init_lora_weights", true},
      {"inference_mode", true},
  };
  if (alpha == std::floor(alpha) && alpha < 1e15)
    config["lora_alpha"] = static_cast<std::int64_t>(alpha);
  return config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace accrue::models
