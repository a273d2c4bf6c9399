#include "models/files/gguf/models/gguf_names.h"

#include <span>

namespace accrue::models {
namespace {

struct NamePair {
  std::string_view gguf, hub;
};

constexpr NamePair of_llama[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr NamePair of_llama_block[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};
constexpr NamePair without_post_norms[] = {{"ffn_norm", "post_attention_layernorm"}};
constexpr NamePair with_post_norms[] = {{"post_attention_norm", "post_attention_layernorm"},
                                        {"ffn_norm", "pre_feedforward_layernorm"},
                                        {"post_ffw_norm", "post_feedforward_layernorm"}};

constexpr NamePair of_gpt2[] = {{"token_embd", "transformer.wte"},
                                {"position_embd", "transformer.wpe"},
                                {"output_norm", "transformer.ln_f"},
                                {"output", "lm_head"}};
constexpr NamePair of_gpt2_block[] = {{"attn_norm", "ln_1"},          {"attn_qkv", "attn.c_attn"},
                                      {"attn_output", "attn.c_proj"}, {"ffn_norm", "ln_2"},
                                      {"ffn_up", "mlp.c_fc"},         {"ffn_down", "mlp.c_proj"}};

/// The names of a kind of model.
struct NameTable {
  NamePair block;  ///< the prefix before the number of a block
  std::span<const NamePair> of_model, of_block, of_norms;
};

NameTable table_of(GgufNames whose) {
  constexpr std::string_view block = "blk.";
  switch (whose) {
    case GgufNames::gpt2:
      return {{block, "transformer.h."}, of_gpt2, of_gpt2_block, {}};
    case GgufNames::llama_with_post_norms:
      return {{block, "model.layers."}, of_llama, of_llama_block, with_post_norms};
    case GgufNames::llama:
      break;
  }
  return {{block, "model.layers."}, of_llama, of_llama_block, without_post_norms};
}

using Side = std::string_view NamePair::*;

std::optional<std::string> find(std::span<const NamePair> pairs, std::string_view name, Side from,
                                Side to) {
  for (const NamePair& pair : pairs)
    if (pair.*from == name) return std::string(pair.*to);
  return std::nullopt;
}

/// The name of `from`'s side on the other: PREFIX + number + '.' + part + ".weight" or ".bias".
std::optional<std::string> translated(std::string_view name, const NameTable& table, Side from,
                                      Side to) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  const std::string_view ending = name.substr(dot);
  if (ending != ".weight" && ending != ".bias") return std::nullopt;
  std::string_view stem = name.substr(0, dot);
  if (!stem.starts_with(table.block.*from)) {
    const auto found = find(table.of_model, stem, from, to);
    return found ? std::optional(*found + std::string(ending)) : std::nullopt;
  }
  stem.remove_prefix((table.block.*from).size());
  const std::size_t end = stem.find_first_not_of("0123456789");
  if (end == 0 || end == stem.npos || stem[end] != '.') return std::nullopt;
  const std::string_view part = stem.substr(end + 1);
  auto found = find(table.of_block, part, from, to);
  if (!found) found = find(table.of_norms, part, from, to);
  if (!found) return std::nullopt;
  return std::string(table.block.*to) + std::string(stem.substr(0, end + 1)) + *found +
         std::string(ending);
}

}  // namespace

std::optional<std::string> hub_name_of_gguf(std::string_view name, GgufNames whose) {
  return translated(name, table_of(whose), &NamePair::gguf, &NamePair::hub);
}

std::optional<std::string> gguf_name_of_hub(std::string_view name, GgufNames whose) {
  return translated(name, table_of(whose), &NamePair::hub, &NamePair::gguf);
}

}  // namespace accrue::models
