#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/plan/layout_forecast.h"

namespace accrue::train {

/// A layout with its best point, or the reason why there is none.
struct LayoutEntry {
  RankLayout layout;
  std::string obstacle;                    ///< empty if the ranks can run it
  std::optional<LayoutForecast> forecast;  ///< with the least memory if no point fits
};

/// The layouts to compare: replicas, stages and replicas in layered order, each with the rows of
/// sharded_states that it can have (parameters are divided in layered order alone), and replicas
/// whose state is offloaded. Simpler ones come first.
std::vector<RankLayout> rank_layouts();

/// The fastest point of a layout without obstacle that fits; of those as fast, within
/// memory::kPlanTolerance, the one with the least recomputation, and of these the one with the
/// largest micro-batch. If none fits, the one that takes the least memory. A pure function.
LayoutForecast best_point(const RankLayout& layout, const LayoutFacts& facts,
                          const RankMachines& machines);

/// An entry for each layout, in their order. A pure function.
std::vector<LayoutEntry> compare_layouts(std::span<const RankLayout> layouts,
                                         const LayoutFacts& facts, const RankMachines& machines);

/// The position of the fastest layout that fits: of those as fast, within memory::kPlanTolerance,
/// the first. None if none fits. A pure function.
std::optional<std::size_t> fastest(std::span<const LayoutEntry> entries);

/// Changes after which a layout would fit, if none does.
struct NearestFit {
  /// A number that is enough, with as many in each node; none if more ranks do not help.
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> tensor_bytes;  ///< of a rank, to about 1%, for as many ranks
  bool with_a_disk = false;                  ///< a layout that offloads fits
};

/// Searches numbers of ranks up to the samples of a batch and the blocks of the model, whichever
/// are more. A pure function.
NearestFit nearest_fit(std::span<const RankLayout> layouts, const LayoutFacts& facts,
                       const RankMachines& machines);

/// "stages, optimizer": how a layout is called in a table.
std::string name_of(const RankLayout& layout);

/// Why an entry is as fast as it is, or does not fit: for people.
std::string reason_of(const LayoutEntry& entry, const RankMachines& machines);

}  // namespace accrue::train
