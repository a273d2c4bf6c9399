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
#include "models/files/safetensors_index.h"

namespace accrue::models {

/// The weights of a Hugging Face folder, not read yet.
struct HubWeights {
  StoredTensors tensors;
  std::filesystem::path origin;  ///< the file that names them in errors
  WeightMap absent = {};         ///< what the origin, an index, names and none of its files has
};

/// Opens model.safetensors, or the shards that model.safetensors.index.json names if there is
/// only that, or the file that "transformers_weights" of config.json names in their place; none
/// if there is no such file. Throws a usage Error if what it names is none, as
/// open_safetensors() and open_shards() do.
std::optional<HubWeights> find_hub_weights(const std::filesystem::path& folder);
/// As find_hub_weights(), but throws a usage Error if there is no such file.
HubWeights open_hub_weights(const std::filesystem::path& folder);

inline constexpr std::string_view hub_head = "lm_head.weight";

/// How the tensors of a language model are named there.
struct HubNames {
  std::string_view prefix;     ///< of all names but the head's; files may leave it out
  std::string_view embedding;  ///< the token embedding's, with the prefix
  std::string_view head = hub_head;
  bool tied_head = true;  ///< the head is the embedding
  /// Whether older versions of transformers saved a tensor of this name as if it were a weight.
  bool (*is_no_weight)(std::string_view name) = nullptr;
};

std::string full_hub_name(const std::string& name, const HubNames& names);

/// Whether `tensors` have a head and an embedding, and the two are not the same. Reads both.
bool has_another_head(const StoredTensors& tensors, const HubNames& names);

/// `tensors` under their full names, without those that are no weights and without a tied head
/// that is stated besides the embedding; if it is stated alone it is the embedding. Throws a
/// usage Error of loading `origin` if such a head has other values than the embedding. `what`
/// says what fits ("weights of a GPT-2 of this shape").
StoredTensors as_hub_weights(const StoredTensors& tensors, const HubNames& names,
                             const std::string& origin, const std::string& what);

/// What as_hub_weights() makes of the tensors of a model.
using NameAsWeights = std::function<StoredTensors(const StoredTensors& tensors)>;

/// The weights that are a model's whose tensors are `targets`, under their full names. Others are
/// left out (left_out_names), as transformers does. Throws a usage Error if an index names one
/// of the model's that no file has.
StoredTensors weights_of_model(const HubWeights& weights, const NamedParameters& targets,
                               const NameAsWeights& as_weights);

/// The names in the files of what weights_of_model() leaves out.
std::vector<std::string> left_out_names(const HubWeights& weights, const NamedParameters& targets,
                                        const NameAsWeights& as_weights);

/// How many positions a model was made for, and how many of them are wanted.
struct PositionCounts {
  std::int64_t all = 0, wanted = 0;
};

/// `tensors`, of which those that `is_table` names, tables with a row for each position, keep their
/// first rows; they are read as a whole first. Throws a usage Error naming `origin` if there are
/// fewer positions than are wanted, or a table has not as many rows.
StoredTensors with_first_rows(StoredTensors tensors, const PositionCounts& positions,
                              const std::string& origin,
                              const std::function<bool(const std::string& name)>& is_table);

}  // namespace accrue::models
