#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"
#include "memory/plan.h"

namespace accrue::memory {

// What a model takes, from its shape alone: arithmetic for before any hardware is there. All
// functions are pure.

/// Bytes of a value in a model.
struct ValueBytes {
  double master = 4;  ///< parameters, and the residual stream
  double operand =
      4;  ///< in matrix products; where it is less than the master, weights have copies
};

/// Bytes that accrue holds for each parameter.
struct Storage {
  ValueBytes values = {};
  double gradient = 4;  ///< its sum; 0 if none is kept
  double moments = 8;   ///< all that the optimizer keeps
};

/// Masters and copies of them as operands, main gradients, and the optimizer's moments. (Copies are
/// counted for all parameters, nearly all of which are matrices. Packed weights are not counted: a
/// run has them if there is much memory.)
Resident state_bytes(std::int64_t parameters, const Storage& storage);
/// Bytes of a parameter that is frozen: `values` alone.
double frozen_bytes(const ValueBytes& values);
/// The usual least: everything in 16 bit, with Adam (2 + 2 + 4 bytes a parameter).
Resident sixteen_bit_state(std::int64_t parameters);

/// A transformer.
struct TransformerShape {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;     ///< in one sample
  std::int64_t ffn_width = 0;  ///< of the feed-forward part; 0: four times the width
  bool post_norm = false;      ///< a norm is behind its residual connection, as BERT has it
};
/// GPT-2 with its head tied to the embedding; `tokens` is its context.
std::int64_t gpt2_parameters(const TransformerShape& shape, std::int64_t vocab);

/// Activations of one sample as accrue keeps them, with attention that keeps no probabilities and a
/// loss that keeps no logits: for each token and layer two fp32 residuals and ten widths in the
/// precision of compute (two norms' outputs, query, key and value, attention's output, four of the
/// hidden layer, or as many as it is wide); `selective` makes the norms' outputs again, of
/// post-norm blocks the first one's, `full` keeps the blocks' inputs and runs one block at a time.
/// Besides the blocks it counts what one block's backward holds. It is within a fifth of what
/// trials of models with wide enough layers measure; where ATen's operators take the place of
/// accrue's kernels a block's backward holds other tensors, and it is within a third.
std::int64_t transformer_activations(const TransformerShape& shape, const ValueBytes& bytes,
                                     Recompute recompute);
/// The usual count in 16 bit without recomputation: 34 bytes for each token, layer and unit of
/// width (Korthikanti et al., arXiv:2205.05198, without attention's probabilities).
std::int64_t sixteen_bit_activations(const TransformerShape& shape);

/// The residual network of models/resnet.h.
struct ResNetShape {
  std::vector<std::int64_t> blocks;  ///< of each stage
  std::int64_t convolutions = 2;     ///< of a block; 3: a bottleneck, which gives 4 x its width
  bool is_large = false;             ///< a quarter of each side enters the first stage
  std::int64_t width = 0;
  std::int64_t channels = 3, height = 0, width_pixels = 0;  ///< of an image
};
/// What one image takes: the inputs of convolutions and of norms are kept, and one convolution's
/// backward holds eight of the largest maps besides.
std::int64_t resnet_activations(const ResNetShape& shape, std::int64_t bytes_per_value);

struct Device {
  std::string name;
  std::int64_t bytes = 0;
};
/// Devices of 24 GB, 80 GB and 141 GB.
std::vector<Device> device_presets();

/// The most samples whose activations stay in `bytes` beside what is resident, less kPlanMargin; at
/// most `window_samples`, and 0 if not even one does.
std::int64_t largest_micro_batch(std::int64_t bytes, const Resident& resident,
                                 std::int64_t bytes_per_sample, std::int64_t window_samples);

/// A device to rent, and how fast the run goes on it.
struct Offer {
  double price_per_hour = 0;
  double tokens_per_second = 0;
};
struct RunCost {
  double hours = 0;
  double money = 0;
};
RunCost run_cost(double tokens, const Offer& offer);

/// Compares the second offer with the first.
struct OfferComparison {
  double time_ratio = 1;
  double cost_ratio = 1;
  /// The second offer's price at which a run costs as much on it as on the first.
  double break_even_price = 0;
  double break_even_tokens_per_second = 0;
};
OfferComparison compare(const Offer& first, const Offer& second);

}  // namespace accrue::memory
