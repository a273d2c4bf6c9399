#pragma once

#include "train/plan/layout_forecast.h"

namespace accrue::train::testing {

/// Four ranks, each on a machine of its own, that send 1 GB and compute 1e12 operations a second.
inline RankMachines four_machines() {
  return {.ranks = 4,
          .nodes = 4,
          .tensor_bytes = 100'000'000'000,
          .flops = 1e12,
          .link = 1e9,
          .node_link = 0,
          .disk = {.read = 1e10, .write = 1e10}};
}

/// A batch of 64 samples, each of which takes such a rank 2 seconds forward and 4 backward, and 1e9
/// parameters in fp32 with AdamW: 4 GB of parameters, 4 GB of sums, 8 GB of moments.
inline LayoutFacts facts_of_a_billion() {
  constexpr std::int64_t giga = 1'000'000'000;
  return {.batch_samples = 64,
          .micro_batch = std::nullopt,
          .modes = {{Recompute::none, 1000}, {Recompute::selective, 800}, {Recompute::full, 400}},
          .segment_sample_bytes = 300,
          .chain = {.blocks = 8,
                    .cuts = 9,
                    .cut_bytes = 100,
                    .first_parameters = 0,
                    .pair_parameters = giga / 10},
          .trained = giga,
          .storage = {},
          .held = {.parameters = 4 * giga, .gradients = 4 * giga, .optimizer = 8 * giga},
          .flops_per_sample = 6e12};
}

inline constexpr ShardedState whole_state = sharded_states[0], divided_moments = sharded_states[1],
                              divided_model = sharded_states[2];

}  // namespace accrue::train::testing
