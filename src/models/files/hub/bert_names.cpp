#include "models/files/hub/bert_names.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>

#include "models/files/hub/hub_weights.h"
#include "models/files/tensors/named_tensors.h"

namespace accrue::models {
namespace {

constexpr const char* bert_weights = "weights of a BERT of this shape";

/// Parts of files of a whole BERT that its masked language model does not need.
bool is_beside_bert(std::string_view name) {
  return name.starts_with("bert.pooler.") || name.starts_with("cls.seq_relationship.") ||
         name == "bert.embeddings.position_ids" || name == "bert.embeddings.token_type_ids";
}

constexpr HubNames tied_weight{.prefix = "",
                               .embedding = "bert.embeddings.word_embeddings.weight",
                               .head = "cls.predictions.decoder.weight",
                               .is_no_weight = is_beside_bert};
constexpr HubNames tied_bias{
    .prefix = "", .embedding = "cls.predictions.bias", .head = "cls.predictions.decoder.bias"};

/// "X.LayerNorm.gamma" as "X.LayerNorm.weight", and beta as the bias.
std::string present_name(const std::string& name) {
  const auto renamed = [&](std::string_view before, std::string_view now) {
    return name.substr(0, name.size() - before.size()) + std::string(now);
  };
  if (name.ends_with("LayerNorm.gamma")) return renamed("gamma", "weight");
  if (name.ends_with("LayerNorm.beta")) return renamed("beta", "bias");
  return name;
}

}  // namespace

NamedParameters to_bert_names(const NamedParameters& parameters) {
  NamedParameters tensors;
  for (const auto& [name, tensor] : parameters) append_split(tensors, name, tensor.detach());
  return tensors;
}

StoredTensors as_bert_weights(const StoredTensors& tensors, const std::string& origin) {
  StoredTensors given = tensors;
  for (StoredTensor& tensor : given) tensor.name = present_name(tensor.name);
  for (const HubNames& tied : {tied_weight, tied_bias})
    given = as_hub_weights(given, tied, origin, bert_weights);
  return given;
}

void load_bert_names(const NamedParameters& file_tensors, const StoredTensors& tensors,
                     const std::string& origin) {
  copy_by_name(file_tensors, as_bert_weights(tensors, origin), origin, bert_weights);
}

}  // namespace accrue::models
