#include "models/files/config/bert_config.h"

#include <nlohmann/json.hpp>

#include "models/files/config/common_keys.h"
#include "models/files/config/config_file.h"

namespace accrue::models {

BertOptions parse_bert_config(const std::string& text, const std::string& file,
                              BertOptions options) {
  const ConfigFile config(text, file, "a model with the architecture of BERT");
  config.require_one_of("model_type", {"bert"});
  check_common_keys(config);
  if (!config.is_null_or_absent("is_causal")) config.require("is_causal", false);
  const BertOptions usual;
  options.layers = config.count_unless_absent("num_hidden_layers", usual.layers);
  options.heads = config.count_unless_absent("num_attention_heads", usual.heads);
  options.width = config.count_unless_absent("hidden_size", usual.width);
  options.ffn_width = config.count_unless_absent("intermediate_size", usual.inner_width());
  options.context = config.count_unless_absent("max_position_embeddings", usual.context);
  options.vocab = config.count_unless_absent("vocab_size", usual.vocab);
  options.token_types = config.count_unless_absent("type_vocab_size", usual.token_types);
  options.norm_eps = config.fraction_or("layer_norm_eps", usual.norm_eps);
  if (config.has("hidden_act")) config.require_one_of("hidden_act", {"gelu", "gelu_python"});
  // transformers no longer reads it since version 5, and then computes such models differently.
  if (!config.is_null_or_absent("position_embedding_type"))
    config.require("position_embedding_type", "absolute");
  config.require("is_decoder", false);
  config.require("add_cross_attention", false);
  config.require("tie_word_embeddings", true);
  return options;
}

std::string make_bert_config(const BertOptions& options) {
  const nlohmann::ordered_json config = {
      {"architectures", {"BertForMaskedLM"}},
      {"model_type", "bert"},
      {"vocab_size", options.vocab},
      {"max_position_embeddings", options.context},
      {"hidden_size", options.width},
      {"num_hidden_layers", options.layers},
      {"num_attention_heads", options.heads},
      {"intermediate_size", options.ffn_width},
      {"type_vocab_size", options.token_types},
      {"hidden_act", "gelu"},
      {"layer_norm_eps", options.norm_eps},
      {"hidden_dropout_prob", options.dropout},
      {"attention_probs_dropout_prob", options.dropout},
      {"initializer_range", 0.02},
      {"tie_word_embeddings", true},
      {"pad_token_id", nullptr},  // no id is reserved for padding: positions are marked instead
      {"dtype", options.compute == Compute::fp64 ? "float64" : "float32"},
  };
  return config.dump(2) + '\n';
}

}  // namespace accrue::models
