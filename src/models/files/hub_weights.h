#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// The weights of a Hugging Face folder, not read yet.
struct HubWeights {
  StoredTensors tensors;
  std::string origin;  ///< the file that names them in errors
};

/// Opens model.safetensors, or the shards that model.safetensors.index.json names where there is
/// only that. Throws a usage Error where there is neither, as open_safetensors() and
/// open_sharded_safetensors() do.
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

/// `tensors` under their full names, without those that are no weights and without a tied head
/// that is stated besides the embedding. Throws a usage Error of loading `origin` where such a head
/// has other values than the embedding. `what` says what fits ("weights of a GPT-2 of this shape").
StoredTensors as_hub_weights(const StoredTensors& tensors, const HubNames& names,
                             const std::string& origin, const std::string& what);

/// How many positions a model was made for, and how many of them are wanted.
struct PositionCounts {
  std::int64_t all = 0, wanted = 0;
};

/// `tensors`, of which those that `is_table` names, tables with a row for each position, keep their
/// first rows; they are read as a whole first. Throws a usage Error naming `origin` where there are
/// fewer positions than are wanted, or a table has not as many rows.
StoredTensors with_first_rows(StoredTensors tensors, const PositionCounts& positions,
                              const std::string& origin,
                              const std::function<bool(const std::string& name)>& is_table);

}  // namespace accrue::models
