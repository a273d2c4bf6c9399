#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/parameter.h"
#include "accrue/core/stored_tensor.h"
#include "models/files/tensors/safetensors_index.h"

namespace accrue::models {

/// The weights of a Hugging Face folder; they are read when used.
struct HubWeights {
  StoredTensors tensors;
  std::filesystem::path origin;  ///< the file named in errors
  WeightMap absent = {};         ///< names in the origin, an index, that are in none of its files
};

/// Opens model.safetensors, or the shards in model.safetensors.index.json if there is only that, or
/// the file that "transformers_weights" of config.json names instead; none if there is no such
/// file. Throws a usage Error if a named file does not exist, as open_safetensors() and
/// open_shards() do.
std::optional<HubWeights> find_hub_weights(const std::filesystem::path& folder);
/// As find_hub_weights(), but throws a usage Error if there is no such file.
HubWeights open_hub_weights(const std::filesystem::path& folder);

inline constexpr std::string_view hub_head = "lm_head.weight";

/// The names of a language model's tensors there.
struct HubNames {
  std::string_view prefix;     ///< of all names but the head's; files may leave it out
  std::string_view embedding;  ///< the token embedding's, with the prefix
  std::string_view head = hub_head;
  bool tied_head = true;  ///< the head is the embedding
  /// Whether older versions of transformers saved a tensor of this name like a weight.
  bool (*is_no_weight)(std::string_view name) = nullptr;
};

std::string full_hub_name(const std::string& name, const HubNames& names);

/// Whether `tensors` have a head and an embedding, and these differ. Reads both.
bool has_another_head(const StoredTensors& tensors, const HubNames& names);

/// `tensors` under their full names, without those that are not weights and without a tied head
/// that is stored in addition to the embedding; if it is stored alone it is the embedding. Throws a
/// usage Error of loading `origin` if such a head has other values than the embedding. `what`
/// describes what fits ("weights of a GPT-2 of this shape").
StoredTensors as_hub_weights(const StoredTensors& tensors, const HubNames& names,
                             const std::string& origin, const std::string& what);

/// Calls as_hub_weights() for the tensors of a model.
using NameAsWeights = std::function<StoredTensors(const StoredTensors& tensors)>;

/// The weights for a model with the tensors `targets`, under their full names. Others are left out
/// (left_out_names), as in transformers. Throws a usage Error if an index names a tensor of the
/// model that no file has.
StoredTensors weights_of_model(const HubWeights& weights, const NamedParameters& targets,
                               const NameAsWeights& as_weights);

/// The names in the files of the tensors that weights_of_model() leaves out.
std::vector<std::string> left_out_names(const HubWeights& weights, const NamedParameters& targets,
                                        const NameAsWeights& as_weights);

/// The number of positions that a model was made for, and the number wanted.
struct PositionCounts {
  std::int64_t all = 0, wanted = 0;
};

/// `tensors`, in which the tables selected by `is_table`, with a row for each position, keep only
/// their first rows; they are read as a whole first. Throws a usage Error naming `origin` if there
/// are fewer positions than wanted, or a table has another number of rows.
StoredTensors with_first_rows(StoredTensors tensors, const PositionCounts& positions,
                              const std::string& origin,
                              const std::function<bool(const std::string& name)>& is_table);

}  // namespace accrue::models
