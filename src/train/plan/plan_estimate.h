#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "accrue/train/effective_batch.h"
#include "memory/estimate.h"

namespace accrue::train {

struct EstimateOptions {
  std::int64_t ranks = 1;  ///< the number that shares the batch
  /// Channels, height and width, which an image model needs and no config key states; empty for
  /// others.
  std::vector<std::int64_t> image;
  std::optional<memory::Offer> offer;   ///< to price the run on
  std::optional<memory::Offer> versus;  ///< to compare it with; needs `offer`
};

/// The arithmetic of a run, without its data, its model's values or any hardware.
struct RunEstimate {
  std::int64_t parameters = 0;
  std::int64_t trained = 0;        ///< how many of them are not frozen
  std::int64_t sample_tokens = 0;  ///< 0 for images
  std::int64_t batch_samples = 0;  ///< of the largest batch, if it changes
  std::string batch_changes;       ///< how it changes, for people; empty if it does not
  std::int64_t micro_batch = 1;    ///< batch.micro, or 1
  std::int64_t micro_batches = 1;
  EffectiveBatch effective;
  std::string micro_reason;

  memory::Resident sixteen_bit;  ///< the usual arithmetic: everything in 16 bits, with Adam
  /// The usual count of a sample's activations; 0 for a resnet, which has none.
  std::int64_t sixteen_bit_sample_bytes = 0;
  memory::Resident held;  ///< what accrue holds under this config
  /// The part of `held` that memory.offload keeps in its file for sure: large tensors, without
  /// copies of weights.
  memory::Resident surely_offloaded;
  struct Mode {
    Recompute recompute = Recompute::none;
    std::int64_t sample_bytes = 0;  ///< activations of one sample
  };
  std::vector<Mode> modes;            ///< those that memory.recompute allows, none first
  std::int64_t flops_per_sample = 0;  ///< Model::flops_per_sample()
  /// A transformer's chain of segments, whose cuts all have the same size; for other models all
  /// are 0.
  struct Chain {
    std::int64_t blocks = 0;
    std::int64_t cuts = 0;              ///< between two segments
    std::int64_t cut_bytes = 0;         ///< of one sample's activations at one of them
    std::int64_t first_parameters = 0;  ///< trained ones that the first segment reads
    std::int64_t pair_parameters = 0;   ///< the most that two segments in succession read
  };
  Chain chain;
  std::int64_t micro_activation_bytes = 0;  ///< the micro-batch's, in the first mode
  std::int64_t one_pass_bytes = 0;          ///< the whole batch at once in that mode, with state

  struct Saving {
    /// The key and its value, " with " a second key if the config would be refused without it.
    std::string change;
    std::int64_t bytes = 0;
  };
  std::vector<Saving> savings;  ///< what each change would save alone, in state and one micro-batch

  struct Fit {
    memory::Device device;
    Recompute recompute = Recompute::none;
    std::int64_t largest_micro_batch = 0;  ///< 0: not even one sample fits
    std::int64_t peak_bytes = 0;           ///< with that micro-batch, or one sample if none fits
  };
  std::vector<Fit> fits;

  std::optional<std::int64_t> total_tokens;  ///< of the run; none if only the data determine it
  std::optional<memory::RunCost> cost, versus_cost;
  std::optional<memory::OfferComparison> comparison;
};

/// Estimates a run. Reads the shape of a folder or file that the model starts from. Throws a usage
/// Error naming the key or option that is missing.
RunEstimate estimate_run(const Config& config, const EstimateOptions& options = {});
/// The same; none if the config does not determine the model's shape.
std::optional<RunEstimate> estimate_if_known(const Config& config,
                                             const EstimateOptions& options = {});

}  // namespace accrue::train
