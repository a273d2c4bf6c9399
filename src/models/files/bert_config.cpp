#include "models/files/bert_config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_file.h"

namespace accrue::models {
namespace {

constexpr std::int64_t bert_token_types = 2;
constexpr double bert_eps = 1e-12;

}  // namespace

BertOptions parse_bert_config(const std::string& text, const std::string& file,
                              BertOptions options) {
  const ConfigFile config(text, file, "a model with the architecture of BERT");
  config.require_one_of("model_type", {"bert"});
  options.layers = config.count("num_hidden_layers");
  options.heads = config.count("num_attention_heads");
  options.width = config.count("hidden_size");
  options.ffn_width = config.count("intermediate_size");
  options.context = config.count("max_position_embeddings");
  options.vocab = config.count("vocab_size");
  config.require_one_of("hidden_act", {"gelu"});
  config.require("layer_norm_eps", bert_eps);
  config.require("type_vocab_size", bert_token_types);
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
      {"type_vocab_size", bert_token_types},
      {"hidden_act", "gelu"},
      {"layer_norm_eps", bert_eps},
      {"hidden_dropout_prob", options.dropout},
      {"attention_probs_dropout_prob", options.dropout},
      {"initializer_range", 0.02},
      {"tie_word_embeddings", true},
      {"pad_token_id", nullptr},  // no id is kept for padding: which positions are, is told apart
      {"dtype", options.compute == Compute::fp64 ? "float64" : "float32"},
  };
  return config.dump(2) + '\n';
}

}  // namespace accrue::models
