#include "models/files/config/gpt2_config.h"

#include <nlohmann/json.hpp>

#include "models/files/config/common_keys.h"
#include "models/files/config/config_file.h"

namespace accrue::models {
namespace {

using nlohmann::json;

constexpr std::int64_t gpt2_vocab = 50'257;
constexpr std::int64_t end_of_text = 50'256;  // in GPT-2's tokenizer

/// A count under its own name or the name in other models, which has precedence in
/// transformers.
std::int64_t gpt2_count(const ConfigFile& config, const char* own, const char* common,
                        std::int64_t usual) {
  return config.count_unless_absent(config.has(common) ? common : own, usual);
}

}  // namespace

Gpt2Options parse_gpt2_config(const std::string& text, const std::string& file,
                              Gpt2Options options) {
  const ConfigFile config(
      text, file,
      "a model with the architecture of GPT-2, or model.kind = \"llama\", which takes others");
  config.require_one_of("model_type", {"gpt2"});
  check_common_keys(config);
  check_is_causal(config);
  const Gpt2Options usual;
  options.layers = gpt2_count(config, "n_layer", "num_hidden_layers", usual.layers);
  options.heads = gpt2_count(config, "n_head", "num_attention_heads", usual.heads);
  options.width = gpt2_count(config, "n_embd", "hidden_size", usual.width);
  options.context = gpt2_count(config, "n_positions", "max_position_embeddings", usual.context);
  options.vocab = config.count_unless_absent("vocab_size", usual.vocab);
  const std::int64_t ffn_width = config.count_or("n_inner", 4 * options.width);
  options.ffn_width = ffn_width == 4 * options.width ? 0 : ffn_width;
  options.norm_eps = config.fraction_or("layer_norm_epsilon", usual.norm_eps);
  if (config.has("activation_function"))
    config.require_one_of("activation_function", tanh_gelu_words());
  config.require("scale_attn_weights", true);
  config.require("scale_attn_by_inverse_layer_idx", false);
  config.require("add_cross_attention", false);
  config.require("tie_word_embeddings", true);
  return options;
}

std::string make_gpt2_config(const Gpt2Options& options) {
  const json token = options.vocab >= gpt2_vocab ? json(end_of_text)
                                                 : json(nullptr);  // smaller vocabularies have none
  const nlohmann::ordered_json config = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", options.vocab},
      {"n_positions", options.context},
      {"n_embd", options.width},
      {"n_layer", options.layers},
      {"n_head", options.heads},
      {"n_inner", options.ffn_width == 0 ? json(nullptr) : json(options.ffn_width)},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", options.norm_eps},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", true},
      {"embd_pdrop", options.dropout},
      {"resid_pdrop", options.dropout},
      {"attn_pdrop", options.dropout},
      {"initializer_range", 0.02},
      {"bos_token_id", token},
      {"eos_token_id", token},
      {"dtype", options.compute == Compute::fp64 ? "float64" : "float32"},
  };
  return config.dump(2) + '\n';
}

}  // namespace accrue::models
