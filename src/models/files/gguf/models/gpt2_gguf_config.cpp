#include "models/files/gguf/models/gpt2_gguf_config.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

using nlohmann::json;

std::string gpt2_key(std::string_view name) {
  return std::string(gguf_gpt2) + '.' + std::string(name);
}

/// The number of tokens is that of the embedding's rows: the list of tokens may be shorter.
std::int64_t rows_of_embedding(const GgufFile& file) {
  const GgufTensor* embedding = file.find("token_embd.weight");
  if (embedding != nullptr && embedding->shape.size() == 2) return embedding->shape[0];
  throw usage_error("read " + file.name(), "a tensor \"token_embd.weight\" of two dimensions",
                    embedding == nullptr ? "none of that name" : "another one",
                    "the GGUF file of a language model");
}

}  // namespace

std::string gpt2_config_of_gguf(const GgufFile& file) {
  constexpr std::string_view architecture = "general.architecture";
  if (file.text(architecture) != gguf_gpt2)
    throw file.wrong_key(architecture, gguf_gpt2, quoted_gguf_text(file.text(architecture)));
  const std::int64_t heads = file.whole(gpt2_key("attention.head_count"));
  const std::string of_keys = gpt2_key("attention.head_count_kv");
  if (const std::int64_t own = file.whole_or(of_keys, heads); own != heads)
    throw file.wrong_key(of_keys, std::to_string(heads) + ", as many as of queries",
                         std::to_string(own));
  const std::int64_t width = file.whole(gpt2_key("embedding_length"));
  const json config = {
      {"model_type", "gpt2"},
      {"vocab_size", rows_of_embedding(file)},
      {"n_positions", file.whole(gpt2_key("context_length"))},
      {"n_embd", width},
      {"n_layer", file.whole(gpt2_key("block_count"))},
      {"n_head", heads},
      {"n_inner", file.whole_or(gpt2_key("feed_forward_length"), 4 * width)},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", file.number(gpt2_key("attention.layer_norm_epsilon"))},
      {"scale_attn_weights", true},
      {"scale_attn_by_inverse_layer_idx", false},
      {"add_cross_attention", false},
      {"tie_word_embeddings", true}};
  return config.dump(2);
}

void add_gpt2_keys(const Gpt2Options& options, GgufKeyWriter& keys) {
  const auto count = [&](std::string_view name, std::int64_t value) {
    keys.add(gpt2_key(name), static_cast<std::uint32_t>(value));
  };
  count("vocab_size", options.vocab);
  count("context_length", options.context);
  count("embedding_length", options.width);
  count("block_count", options.layers);
  count("feed_forward_length", options.inner_width());
  count("attention.head_count", options.heads);
  keys.add(gpt2_key("attention.layer_norm_epsilon"), static_cast<float>(options.norm_eps));
}

}  // namespace accrue::models
