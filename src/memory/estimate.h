#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"
#include "memory/plan.h"

namespace accrue::memory {

// The memory of a model, from its shape alone: arithmetic that needs no hardware. All functions are
// pure.

/// Bytes of a value in a model.
struct ValueBytes {
  double master = 4;  ///< parameters, and the residual stream
  /// In matrix products; if it is less than the master, weights have copies.
  double operand = 4;
};

/// Bytes that accrue holds per parameter.
struct Storage {
  ValueBytes values = {};
  double gradient = 4;  ///< its sum; 0 if none is kept
  double moments = 8;   ///< all state of the optimizer
};

/// Masters and copies of them as operands, main gradients, and the optimizer's moments. (Copies are
/// counted for all parameters, since nearly all of them are matrices. Packed weights are not
/// counted: a run only has them if there is much memory.)
Resident state_bytes(std::int64_t parameters, const Storage& storage);
/// Bytes of a frozen parameter: `values` alone.
double frozen_bytes(const ValueBytes& values);
/// The usual minimum: everything in 16 bit, with Adam (2 + 2 + 4 bytes per parameter).
Resident sixteen_bit_state(std::int64_t parameters);

/// A transformer.
struct TransformerShape {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;     ///< in one sample
  std::int64_t ffn_width = 0;  ///< of the feed-forward part; 0: four times the width
  bool post_norm = false;      ///< a norm is after its residual connection, as in BERT
};
/// GPT-2 with its head tied to the embedding; `tokens` is its context.
std::int64_t gpt2_parameters(const TransformerShape& shape, std::int64_t vocab);

/// Activations of one sample as accrue keeps them, with attention that keeps no probabilities and a
/// loss that keeps no logits: per token and layer two fp32 residuals and ten widths in the
/// precision of compute (two norms' outputs, query, key and value, attention's output, four of the
/// hidden layer, or as many as it is wide). `selective` recomputes the norms' outputs, and in
/// post-norm blocks the first one's; `full` keeps the blocks' inputs and runs one block at a time.
/// It also counts the memory of one block's backward. It is within a fifth of the measurements of
/// trials for models with wide enough layers; if ATen's operators replace accrue's kernels, a
/// block's backward holds other tensors, and it is within a third.
std::int64_t transformer_activations(const TransformerShape& shape, const ValueBytes& bytes,
                                     Recompute recompute);
/// The usual count in 16 bit without recomputation: 34 bytes per token, layer and unit of width
/// (Korthikanti et al., arXiv:2205.05198, without attention's probabilities).
std::int64_t sixteen_bit_activations(const TransformerShape& shape);

/// The residual network of models/resnet.h.
struct ResNetShape {
  std::vector<std::int64_t> blocks;  ///< per stage
  std::int64_t convolutions = 2;     ///< of a block; 3: a bottleneck, with 4 x its width as output
  bool is_large = false;             ///< a quarter of each side enters the first stage
  std::int64_t width = 0;
  std::int64_t channels = 3, height = 0, width_pixels = 0;  ///< of an image
};
/// The memory of one image: the inputs of convolutions and of norms are kept, and one convolution's
/// backward additionally holds eight of the largest maps.
std::int64_t resnet_activations(const ResNetShape& shape, std::int64_t bytes_per_value);

struct Device {
  std::string name;
  std::int64_t bytes = 0;
};
/// Devices of 24 GB, 80 GB and 141 GB.
std::vector<Device> device_presets();

/// The most samples whose activations fit in `bytes` next to the resident memory, less kPlanMargin;
/// at most `window_samples`, and 0 if not even one does.
std::int64_t largest_micro_batch(std::int64_t bytes, const Resident& resident,
                                 std::int64_t bytes_per_sample, std::int64_t window_samples);

/// A device for rent, and the speed of the run on it.
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
  /// The second offer's price at which a run costs the same on both.
  double break_even_price = 0;
  double break_even_tokens_per_second = 0;
};
OfferComparison compare(const Offer& first, const Offer& second);

}  // namespace accrue::memory
