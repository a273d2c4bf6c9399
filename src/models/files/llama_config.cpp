#include "models/files/llama_config.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "models/files/config_file.h"
#include "models/files/rotary_config.h"

namespace accrue::models {
namespace {

using nlohmann::json;

constexpr const char* fitting_llama =
    "a model of Llama, Mistral, Qwen 2 or 3, or Gemma 2 or 3 (text)";
constexpr std::int64_t most_llama_layers = 10'000;
constexpr const char* local_layer = "sliding_attention";
constexpr const char* global_layer = "full_attention";

/// What a model_type fixes, and what is usual where its config.json leaves a key out.
struct Family {
  const char* model_type;
  LlamaVariant variant;
  bool has_head_width;        ///< states head_dim: it is not width / heads
  bool may_have_biases;       ///< reads attention_bias
  std::int64_t usual_window;  ///< where sliding_window is left out; 0: it has none
  bool is_gemma = false;
};

const std::array<Family, 6>& families() {
  static const LlamaVariant plain{.tied_head = false, .norm_eps = 1e-6};
  static const LlamaVariant gemma2{.post_norms = true,
                                   .offset_norms = true,
                                   .scaled_embedding = true,
                                   .norm_eps = 1e-6,
                                   .activation = kernels::GateActivation::gelu_tanh};
  static const auto with = [](LlamaVariant variant, bool LlamaVariant::*flag) {
    variant.*flag = true;
    return variant;
  };
  static const std::array<Family, 6> table{{
      {"llama", plain, false, true, 0},
      {"mistral", plain, false, false, 4096},
      {"qwen2", with(plain, &LlamaVariant::qkv_bias), false, false, 4096},
      {"qwen3", with(plain, &LlamaVariant::qk_norm), true, true, 4096},
      {"gemma2", gemma2, true, true, 4096, true},
      {"gemma3_text", with(gemma2, &LlamaVariant::qk_norm), true, true, 4096, true},
  }};
  return table;
}

const Family* find_family(std::string_view model_type) {
  const auto found = std::find_if(families().begin(), families().end(), [&](const Family& family) {
    return family.model_type == model_type;
  });
  return found == families().end() ? nullptr : &*found;
}

const Family& family_of(const ConfigFile& config) {
  const std::string model_type = config.text("model_type");
  if (const Family* family = find_family(model_type)) return *family;
  std::string known;
  for (const Family& family : families())
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  throw config.wrong("model_type", "one of " + known, model_type);
}

bool is_type(const Family& family, std::string_view model_type) {
  return family.model_type == model_type;
}

/// Throws where a key asks for what no Llama is.
void check_is_plain(const ConfigFile& config, const Family& family) {
  config.require_none("quantization_config");
  config.require("rope_interleaved", false);
  if (family.is_gemma) {
    if (!config.is_null_or_absent("hidden_activation"))
      config.require("hidden_activation", "gelu_pytorch_tanh");
    if (!config.is_null_or_absent("use_bidirectional_attention"))
      config.require("use_bidirectional_attention", false);
  } else {
    config.require("hidden_act", "silu");
    config.require("mlp_bias", false);
  }
}

/// Whether each layer is local, as layer_types say it or else `usual` does.
std::vector<bool> layers_that_are_local(const ConfigFile& config, std::int64_t layers,
                                        const std::function<bool(std::int64_t)>& usual) {
  std::vector<bool> local;
  const auto types = config.texts("layer_types");
  if (types && static_cast<std::int64_t>(types->size()) != layers)
    throw config.wrong("layer_types", "a type for each of " + std::to_string(layers) + " layers",
                       std::to_string(types->size()) + " of them");
  for (std::int64_t i = 0; i < layers; ++i) {
    if (!types) {
      local.push_back(usual(i));
      continue;
    }
    const std::string& type = (*types)[static_cast<std::size_t>(i)];
    if (type != local_layer && type != global_layer)
      throw config.wrong("layer_types", std::string(local_layer) + " or " + global_layer, type);
    local.push_back(type == local_layer);
  }
  return local;
}

/// The layer from which on, or the period after which, a layer is local where no layer_types say
/// it.
std::function<bool(std::int64_t)> usually_local(const ConfigFile& config, const Family& family) {
  if (is_type(family, "gemma2")) return [](std::int64_t i) { return i % 2 == 0; };
  if (is_type(family, "gemma3_text")) {
    const std::int64_t period = config.count_or("sliding_window_pattern", 6);
    return [period](std::int64_t i) { return (i + 1) % period != 0; };
  }
  const std::int64_t first = config.count_or("max_window_layers", 28, /*least=*/0);
  return [first](std::int64_t i) { return i >= first; };
}

void read_windows(const ConfigFile& config, const Family& family, std::int64_t layers,
                  LlamaVariant& variant) {
  if (is_type(family, "llama")) return;
  const bool qwen = is_type(family, "qwen2") || is_type(family, "qwen3");
  if (qwen && !config.flag_or("use_sliding_window", false)) return;
  if (!config.has("sliding_window"))
    variant.window = family.usual_window;
  else if (family.is_gemma)
    variant.window = config.count("sliding_window");
  else
    variant.window = config.count_or("sliding_window", 0);
  if (variant.window == 0 || is_type(family, "mistral")) return;
  variant.local_layers = layers_that_are_local(config, layers, usually_local(config, family));
}

/// What only Gemma has besides.
void read_gemma(const ConfigFile& config, const Family& family, LlamaVariant& variant) {
  if (!family.is_gemma) return;
  variant.query_scalar = config.positive_or("query_pre_attn_scalar", 256);
  if (is_type(family, "gemma3_text")) {
    config.require_none("attn_logit_softcapping");  // transformers' Gemma 3 does not read it
    variant.logit_soft_cap = config.positive_or("final_logit_softcapping", 0);
    return;
  }
  const auto cap = [&](const char* key, double usual) {
    return config.has(key) ? config.positive_or(key, 0) : usual;
  };
  variant.attention_soft_cap = cap("attn_logit_softcapping", 50);
  variant.logit_soft_cap = cap("final_logit_softcapping", 30);
}

/// What is the same model said in two ways is the same variant.
LlamaVariant normal(LlamaVariant variant) {
  std::vector<bool>& local = variant.local_layers;
  if (!local.empty() && std::ranges::none_of(local, std::identity())) variant.window = 0;
  if (variant.window == 0 || std::ranges::all_of(local, std::identity())) local.clear();
  return variant;
}

bool same_model(const LlamaOptions& a, const LlamaOptions& b) {
  return a.layers == b.layers && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.head_width == b.head_width && a.width == b.width && a.ffn_width == b.ffn_width &&
         a.vocab == b.vocab && normal(a.variant) == normal(b.variant);
}

json fresh_config(const LlamaOptions& options) {
  json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", options.vocab},
      {"max_position_embeddings", options.context},
      {"hidden_size", options.width},
      {"intermediate_size", options.ffn_width},
      {"num_hidden_layers", options.layers},
      {"num_attention_heads", options.heads},
      {"num_key_value_heads", options.kv_heads},
      {"head_dim", options.head_width},
      {"hidden_act", "silu"},
      {"rms_norm_eps", options.variant.norm_eps},
      {"attention_bias", options.variant.qkv_bias},
      {"mlp_bias", false},
      {"tie_word_embeddings", options.variant.tied_head},
      {"attention_dropout", options.dropout},
      {"initializer_range", 0.02},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"pad_token_id", nullptr},
  };
  write_rotary(options.variant.rotary, config);
  return config;
}

}  // namespace

bool is_llama_type(std::string_view model_type) { return find_family(model_type) != nullptr; }

LlamaOptions parse_llama_config(const std::string& text, const std::string& file,
                                LlamaOptions options) {
  const ConfigFile config(text, file, fitting_llama);
  const Family& family = family_of(config);
  check_is_plain(config, family);
  options.layers = config.count("num_hidden_layers");
  if (options.layers > most_llama_layers)
    throw config.wrong("num_hidden_layers", "at most " + std::to_string(most_llama_layers),
                       std::to_string(options.layers));
  options.heads = config.count("num_attention_heads");
  options.kv_heads = is_type(family, "llama")
                         ? config.count_or("num_key_value_heads", options.heads)
                         : config.count("num_key_value_heads");
  options.width = config.count("hidden_size");
  options.head_width = family.has_head_width
                           ? config.count("head_dim")
                           : config.count_or("head_dim", options.width / options.heads);
  options.ffn_width = config.count("intermediate_size");
  options.context = config.count("max_position_embeddings");
  options.vocab = config.count("vocab_size");

  LlamaVariant variant = family.variant;
  variant.tied_head = config.flag_or("tie_word_embeddings", variant.tied_head);
  variant.norm_eps = config.positive_or("rms_norm_eps", variant.norm_eps);
  if (family.may_have_biases && config.flag_or("attention_bias", false))
    variant.qkv_bias = variant.output_bias = true;
  read_windows(config, family, options.layers, variant);
  read_gemma(config, family, variant);
  read_rotary(config, is_type(family, "gemma3_text"), options.context, variant);
  options.variant = normal(std::move(variant));
  options.config_json = text;
  return options;
}

std::string make_llama_config(const LlamaOptions& options) {
  const bool is_fresh = options.config_json.empty();
  json config = is_fresh ? fresh_config(options) : json::parse(options.config_json);
  config.erase("torch_dtype");  // an older name of dtype
  config["dtype"] = options.compute == Compute::fp64 ? "float64" : "float32";
  const std::string text = config.dump(2) + '\n';
  if (!same_model(parse_llama_config(text, "config.json", options), options))
    throw usage_error("write the config.json of a Llama",
                      is_fresh ? "options that a config.json of model_type llama can state"
                               : "options as the config.json that they came from states them",
                      "others (a window, norms, caps, activation or biases)",
                      "LlamaOptions::config_json of a model of that family");
  return text;
}

}  // namespace accrue::models
