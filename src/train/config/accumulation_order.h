#pragma once

#include <optional>
#include <string>

#include "accrue/train/config.h"
#include "train/config/conflict.h"

namespace accrue::train {

/// A key by which the micro-batches of a window run in layered order.
struct LayeredKey {
  std::string name;
  std::string value;    ///< as TOML
  std::string without;  ///< how to state the standard order, for people

  std::string statement() const { return name + " = " + value; }
};

/// memory.offload, dist.shard = "all", memory.accumulation or model.batchnorm = "exact", whichever
/// the config states, in this order. A model without batch normalisations runs in standard order in
/// spite of the last.
std::optional<LayeredKey> layered_key(const Config& config);

/// Whether the config requests the layered order for any model: memory.accumulation = "layered", or
/// memory.offload or dist.shard = "all", which need it.
bool asks_for_layered(const Config& config);
/// Whether two configs that differ in nothing else run a window in the same order: "auto" and
/// "standard" are the same.
bool have_same_order(const Config& a, const Config& b);

/// The setting in `config` that conflicts with the order of a window's micro-batches, or with
/// offloading: the single table (docs/guide/config.md). Folded gradients and measured noise are in
/// those of optimizer_memory_conflict() and check_batch_changes().
std::optional<Conflict> layered_conflict(const Config& config);

}  // namespace accrue::train
