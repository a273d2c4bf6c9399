#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/bert.h"

namespace accrue::models {

/// Returns `options` with the shape in the config.json of a Hugging Face BERT folder; missing keys
/// have the defaults of transformers' BertConfig. Throws a usage Error naming file and key if this
/// model does not support a value (another activation, relative positions, ...).
BertOptions read_bert_shape(const std::filesystem::path& folder, BertOptions options);

/// Loads a Hugging Face folder of BertForMaskedLM, or of a BERT with its pre-training heads:
/// config.json (its shape replaces that of `options`; dropout, compute and seed are kept) and
/// model.safetensors or its shards. A pooler and the head for sentence pairs are ignored. With
/// `context` the model has only that many positions (with_first_bert_positions). Tensors that the
/// model does not have are left out (tensors_left_out). Throws a usage Error naming file and tensor
/// if something is missing or misshapen or there are fewer positions than `context`, and the errors
/// of read_bert_shape().
std::unique_ptr<Bert> load_bert_folder(const std::filesystem::path& folder, BertOptions options,
                                       std::optional<std::int64_t> context = {});

/// The names of the tensors in such a folder that the model loaded from it does not have, without
/// those that are ignored.
std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Bert& model);

/// Reduces `tensors` of a BERT with `positions` positions to the first `context` positions. Throws
/// a usage Error naming `origin` if there are fewer positions.
StoredTensors with_first_bert_positions(StoredTensors tensors, std::int64_t positions,
                                        std::int64_t context, const std::string& origin);

/// Writes a folder that transformers' BertForMaskedLM.from_pretrained loads: config.json and
/// model.safetensors. The folder is created if it does not exist. Throws a usage Error if it
/// already contains a model.
void save_bert_folder(const std::filesystem::path& folder, const Bert& model);

}  // namespace accrue::models
