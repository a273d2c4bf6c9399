#include "models/files/gpt2_config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_file.h"

namespace accrue::models {
namespace {

using nlohmann::json;

constexpr std::int64_t gpt2_vocab = 50'257;
constexpr std::int64_t end_of_text = 50'256;  // GPT-2's tokenizer has it

}  // namespace

Gpt2Options parse_gpt2_config(const std::string& text, const std::string& file,
                              Gpt2Options options) {
  const ConfigFile config(
      text, file,
      "a model with the architecture of GPT-2, or model.kind = \"llama\", which takes others");
  config.require_one_of("model_type", {"gpt2"});
  options.layers = config.count("n_layer");
  options.heads = config.count("n_head");
  options.width = config.count("n_embd");
  options.context = config.count("n_positions");
  options.vocab = config.count("vocab_size");
  // Both names stand for the tanh form of GELU.
  config.require_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.require("layer_norm_epsilon", 1e-5);
  config.require("scale_attn_weights", true);
  config.require("scale_attn_by_inverse_layer_idx", false);
  config.require("add_cross_attention", false);
  config.require("tie_word_embeddings", true);
  if (!config.is_null_or_absent("n_inner")) config.require("n_inner", 4 * options.width);
  return options;
}

std::string make_gpt2_config(const Gpt2Options& options) {
  const json token = options.vocab >= gpt2_vocab ? json(end_of_text)
                                                 : json(nullptr);  // with fewer words there is none
  const nlohmann::ordered_json config = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", options.vocab},
      {"n_positions", options.context},
      {"n_embd", options.width},
      {"n_layer", options.layers},
      {"n_head", options.heads},
      {"n_inner", nullptr},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", 1e-5},
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
