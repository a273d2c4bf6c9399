#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/bert.h"

namespace accrue::models {

/// `options` with the shape that a Hugging Face BERT folder's config.json states; what it leaves
/// out is as in transformers' BertConfig. Throws a usage Error naming the file and the key if it
/// asks for what this model is not (another activation, relative positions, ...).
BertOptions read_bert_shape(const std::filesystem::path& folder, BertOptions options);

/// Loads a Hugging Face folder of BertForMaskedLM, or of a BERT with its heads for pre-training:
/// config.json (its shape replaces that of `options`; dropout, compute and seed are kept) and
/// model.safetensors, or its shards. A pooler and the head for pairs of sentences are passed over.
/// With `context` the model is made for that many positions only
/// (with_first_bert_positions). Tensors that are none of the model's are left out
/// (tensors_left_out). Throws a usage Error naming file and tensor if something is missing or
/// misshapen, or there are fewer positions than `context`; and as read_bert_shape().
std::unique_ptr<Bert> load_bert_folder(const std::filesystem::path& folder, BertOptions options,
                                       std::optional<std::int64_t> context = {});

/// The names of the tensors in such a folder that are neither the model's that was loaded from it,
/// nor among those passed over.
std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Bert& model);

/// `tensors` of a BERT with `positions` positions, as one with only the first `context` of them has
/// them. Throws a usage Error naming `origin` if there are fewer positions.
StoredTensors with_first_bert_positions(StoredTensors tensors, std::int64_t positions,
                                        std::int64_t context, const std::string& origin);

/// Writes a folder that transformers' BertForMaskedLM.from_pretrained loads: config.json and
/// model.safetensors. The folder is created if it does not exist; a model that is in it already
/// is a usage Error.
void save_bert_folder(const std::filesystem::path& folder, const Bert& model);

}  // namespace accrue::models
