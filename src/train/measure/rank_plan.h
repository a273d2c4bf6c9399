#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "train/plan/layout_choice.h"

namespace accrue::train {

/// Ranks on machines that need not exist. Rates that are left out are measured on this one.
struct RankPlanOptions {
  std::int64_t ranks = 2;
  std::optional<std::int64_t> nodes;     ///< machines; none: one for each rank
  std::int64_t memory_bytes = 0;         ///< of one rank
  std::optional<double> link;            ///< bytes a second between nodes; needed for several
  std::optional<double> node_link;       ///< within a node; none: the rate of this machine's memory
  std::optional<double> flops;           ///< of one rank; none: this machine's, in a large product
  std::optional<double> disk;            ///< bytes a second of a rank's own disk, each way
  std::vector<std::int64_t> image = {};  ///< as in EstimateOptions
};

/// A key to change in a config.
struct KeyToSet {
  std::string key;
  std::string value;  ///< as TOML
};

struct RankPlan {
  RankMachines machines;
  std::int64_t memory_bytes = 0;   ///< of one rank
  std::int64_t outside_bytes = 0;  ///< its part that is not for tensors
  bool flops_are_measured = false;
  bool node_link_is_measured = false;
  std::int64_t parameters = 0;
  std::int64_t batch_samples = 0;
  std::int64_t batch_tokens = 0;     ///< 0 for images
  std::vector<LayoutEntry> entries;  ///< rank_layouts()
  std::size_t chosen = 0;            ///< the entry that is the fastest()
  std::vector<KeyToSet> keys;        ///< by which the config becomes one of the chosen entry

  const LayoutForecast& best() const { return entries[chosen].forecast.value(); }
};

/// Compares the layouts in which ranks can run the config: reads the model's shape, and neither
/// data nor weights, and runs nothing of the model. Throws a usage Error for options that do not go
/// together, a config that no ranks can run, and a memory in which no layout fits: with the nearest
/// number of ranks or memory that would do.
RankPlan plan_ranks(const Config& config, const RankPlanOptions& options);

}  // namespace accrue::train
