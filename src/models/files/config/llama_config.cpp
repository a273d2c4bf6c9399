#include "models/files/config/llama_config.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "models/files/config/common_keys.h"
#include "models/files/config/config_file.h"
#include "models/files/config/rotary_config.h"

namespace accrue::models {
namespace {

using kernels::GateActivation;
using nlohmann::json;

constexpr const char* fitting_llama =
    "a model of Llama, Mistral, Ministral, Qwen 2 or 3, or Gemma 1, 2 or 3 (text)";
constexpr std::int64_t most_llama_layers = 10'000;
constexpr std::int64_t usual_llama_window = 4096;
constexpr const char* local_layer = "sliding_attention";
constexpr const char* global_layer = "full_attention";

/// The local layers of a family if layer_types does not state them.
enum class LocalLayers { none, all, upper, every_other, but_each_so_many };

/// The defaults of transformers' class of a family for keys missing in a config.json.
struct UsualShape {
  std::int64_t vocab, width, ffn_width, layers, heads;
  std::int64_t kv_heads;    ///< 0: as many as heads
  std::int64_t head_width;  ///< 0: width / heads
  std::int64_t positions;
};

/// The fixed properties and the defaults of a model_type.
struct Family {
  const char* model_type;
  LlamaVariant variant;
  UsualShape usual;
  LocalLayers local;
  bool may_have_biases;  ///< reads attention_bias
  bool is_gemma = false;
};

const std::array<Family, 8>& families() {
  static const LlamaVariant plain{.tied_head = false, .norm_eps = 1e-6};
  static const LlamaVariant gemma{.offset_norms = true,
                                  .scaled_embedding = true,
                                  .norm_eps = 1e-6,
                                  .activation = GateActivation::gelu_tanh};
  static const auto with = [](LlamaVariant variant, bool LlamaVariant::*flag) {
    variant.*flag = true;
    return variant;
  };
  static const LlamaVariant gemma2 = with(gemma, &LlamaVariant::post_norms);
  static const UsualShape of_mistral{32'000, 4096, 14'336, 32, 32, 8, 0, 131'072};
  static const std::array<Family, 8> table{{
      {"llama", plain, {32'000, 4096, 11'008, 32, 32, 0, 0, 2048}, LocalLayers::none, true},
      {"mistral", plain, of_mistral, LocalLayers::all, false},
      {"ministral", plain, of_mistral, LocalLayers::all, false},
      {"qwen2",
       with(plain, &LlamaVariant::qkv_bias),
       {151'936, 4096, 22'016, 32, 32, 32, 0, 32'768},
       LocalLayers::upper,
       false},
      {"qwen3",
       with(plain, &LlamaVariant::qk_norm),
       {151'936, 4096, 22'016, 32, 32, 32, 128, 32'768},
       LocalLayers::upper,
       true},
      {"gemma",
       gemma,
       {256'000, 3072, 24'576, 28, 16, 16, 256, 8192},
       LocalLayers::none,
       true,
       true},
      {"gemma2",
       gemma2,
       {256'000, 2304, 9216, 26, 8, 4, 256, 8192},
       LocalLayers::every_other,
       true,
       true},
      {"gemma3_text",
       with(gemma2, &LlamaVariant::qk_norm),
       {262'208, 2304, 9216, 26, 8, 4, 256, 131'072},
       LocalLayers::but_each_so_many,
       true,
       true},
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

/// Throws if a key requests something that Llama does not support.
void check_is_plain(const ConfigFile& config, const Family& family) {
  check_common_keys(config);
  check_is_causal(config);
  if (is_type(family, "llama")) config.require("mlp_bias", false);
  if (family.is_gemma && !config.is_null_or_absent("use_bidirectional_attention"))
    config.require("use_bidirectional_attention", false);
}

GateActivation activation_of(const ConfigFile& config, const Family& family) {
  const bool is_first_gemma = is_type(family, "gemma");
  const char* key = family.is_gemma && !is_first_gemma ? "hidden_activation" : "hidden_act";
  if (config.is_null_or_absent(key)) return family.variant.activation;
  const std::string word = config.text(key);
  if (word == "silu" || word == "swish") return GateActivation::silu;
  // Files of the first Gemma state gelu when they mean its tanh form.
  if (is_tanh_gelu(word) || (is_first_gemma && word == "gelu")) return GateActivation::gelu_tanh;
  throw config.wrong(key, "silu or gelu_pytorch_tanh", word);
}

std::int64_t kv_heads_of(const ConfigFile& config, const Family& family, std::int64_t heads) {
  constexpr const char* key = "num_key_value_heads";
  const std::int64_t usual = family.usual.kv_heads == 0 ? heads : family.usual.kv_heads;
  return config.has(key) ? config.count_or(key, heads) : usual;
}

std::int64_t head_width_of(const ConfigFile& config, const Family& family,
                           const LlamaOptions& options) {
  constexpr const char* key = "head_dim";
  if (family.usual.head_width > 0) return config.count_unless_absent(key, family.usual.head_width);
  return config.count_or(key, options.width / options.heads);
}

LlamaOptions with_llama_shape(LlamaOptions options, const ConfigFile& config,
                              const Family& family) {
  const UsualShape& usual = family.usual;
  options.layers = config.count_unless_absent("num_hidden_layers", usual.layers);
  if (options.layers > most_llama_layers)
    throw config.wrong("num_hidden_layers", "at most " + std::to_string(most_llama_layers),
                       std::to_string(options.layers));
  options.heads = config.count_unless_absent("num_attention_heads", usual.heads);
  options.kv_heads = kv_heads_of(config, family, options.heads);
  options.width = config.count_unless_absent("hidden_size", usual.width);
  options.head_width = head_width_of(config, family, options);
  options.ffn_width = config.count_unless_absent("intermediate_size", usual.ffn_width);
  options.context = config.count_unless_absent("max_position_embeddings", usual.positions);
  options.vocab = config.count_unless_absent("vocab_size", usual.vocab);
  return options;
}

/// Whether a word of layer_types, in any version of transformers, is that of a local layer.
bool is_local_type(const ConfigFile& config, const std::string& word) {
  if (word == local_layer) return true;
  if (word == global_layer || word == "attention") return false;
  throw config.wrong("layer_types", std::string(local_layer) + " or " + global_layer, word);
}

/// Whether each layer is local, by layer_types or else by `usual`.
std::vector<bool> layers_that_are_local(const ConfigFile& config, std::int64_t layers,
                                        const std::function<bool(std::int64_t)>& usual) {
  std::vector<bool> local;
  const auto types = config.texts("layer_types");
  if (types && static_cast<std::int64_t>(types->size()) != layers)
    throw config.wrong("layer_types", "a type for each of " + std::to_string(layers) + " layers",
                       std::to_string(types->size()) + " of them");
  for (std::int64_t i = 0; i < layers; ++i)
    local.push_back(types ? is_local_type(config, (*types)[static_cast<std::size_t>(i)])
                          : usual(i));
  return local;
}

/// Whether a layer is local if layer_types does not state it.
std::function<bool(std::int64_t)> usually_local(const ConfigFile& config, LocalLayers local,
                                                bool has_window) {
  switch (local) {
    case LocalLayers::every_other:
      return [](std::int64_t i) { return i % 2 == 0; };
    case LocalLayers::but_each_so_many:
      return [period = config.count_or("sliding_window_pattern", 6)](std::int64_t i) {
        return (i + 1) % period != 0;
      };
    case LocalLayers::upper:
      return [has_window, first = config.count_or("max_window_layers", 28, /*least=*/0)](
                 std::int64_t i) { return has_window && i >= first; };
    case LocalLayers::all:
    case LocalLayers::none:
      break;
  }
  return [has_window](std::int64_t) { return has_window; };
}

/// The most keys that a query sees in local layers; 0: there is no window.
std::int64_t read_window(const ConfigFile& config, const Family& family) {
  const bool is_qwen = family.local == LocalLayers::upper;
  if (is_qwen && !config.flag_or("use_sliding_window", false)) return 0;
  return config.has("sliding_window") ? config.count_or("sliding_window", 0) : usual_llama_window;
}

/// transformers trains a llama or a gemma with local layers as one without, and cannot generate.
void refuse_local_layers(const ConfigFile& config, std::int64_t layers) {
  const auto is_global = [](std::int64_t) { return false; };
  if (std::ranges::any_of(layers_that_are_local(config, layers, is_global), std::identity()))
    throw config.wrong("layer_types", "full_attention of each layer, as this family has no other",
                       local_layer);
}

/// transformers treats a mistral with layer_types as a ministral, which has local layers by them.
void read_windows(const ConfigFile& config, const Family& family, std::int64_t layers,
                  LlamaVariant& variant) {
  if (family.local == LocalLayers::none) return refuse_local_layers(config, layers);
  variant.window = read_window(config, family);
  variant.local_layers = layers_that_are_local(
      config, layers, usually_local(config, family.local, variant.window > 0));
  if (variant.window == 0 && std::ranges::any_of(variant.local_layers, std::identity()))
    throw config.wrong(
        "sliding_window", "a number of tokens, as there are layers of sliding_attention",
        family.local == LocalLayers::upper ? "none: null, or use_sliding_window is not true"
                                           : "null");
}

/// The properties that only Gemma has.
void read_gemma(const ConfigFile& config, const Family& family, LlamaVariant& variant) {
  if (!family.is_gemma || is_type(family, "gemma")) return;
  variant.query_scalar = config.positive_or("query_pre_attn_scalar", 256);
  const auto cap = [&](const char* key, double usual) {
    return config.has(key) ? config.positive_or(key, 0) : usual;
  };
  constexpr const char* of_logits = "final_logit_softcapping";
  const bool is_second = is_type(family, "gemma2");
  if (is_second) variant.attention_soft_cap = cap("attn_logit_softcapping", 50);
  variant.logit_soft_cap = cap(of_logits, is_second ? 30 : 0);
  constexpr double most = LlamaVariant::most_logit_soft_cap;
  if (variant.logit_soft_cap > most)
    throw config.wrong(of_logits, "at most " + json(most).dump(),
                       json(variant.logit_soft_cap).dump());
}

/// Two descriptions of the same model give the same variant.
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
  options = with_llama_shape(std::move(options), config, family);

  LlamaVariant variant = family.variant;
  variant.tied_head = config.flag_or("tie_word_embeddings", variant.tied_head);
  variant.norm_eps = config.fraction_or("rms_norm_eps", variant.norm_eps);
  variant.activation = activation_of(config, family);
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
