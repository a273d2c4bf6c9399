#include "memory/estimate.h"

#include <algorithm>
#include <cmath>

namespace accrue::memory {
namespace {

constexpr double fp32_bytes = 4;

/// Bytes per token and unit of width while the last block's backward runs: residuals, their
/// gradients and the hidden layer's, as measured; about equal in fp32 and bf16. Post-norm blocks
/// recompute the hidden layer next to its gradients, and hold less if a block runs again.
constexpr double around_blocks = 52, around_post_norm_blocks = 64, around_rerun_post_norm = 46;
/// The number of the largest feature maps that a convolution's backward holds, as measured.
constexpr double around_maps = 8;

double around_blocks_of(const TransformerShape& shape, Recompute recompute) {
  if (!shape.post_norm) return around_blocks;
  return recompute == Recompute::full ? around_rerun_post_norm : around_post_norm_blocks;
}

std::int64_t rounded(double bytes) { return std::llround(bytes); }

/// The bytes that one block keeps per token.
double kept_by_block(const TransformerShape& shape, const ValueBytes& bytes, Recompute recompute) {
  const auto width = static_cast<double>(shape.width);
  if (recompute == Recompute::full) return bytes.master * width;
  const double hidden = shape.ffn_width == 0 ? 4 : static_cast<double>(shape.ffn_width) / width;
  const double remade = recompute == Recompute::selective ? (shape.post_norm ? 1 : 2) : 0;
  const double widths = 6 + hidden - remade;
  const double log_sums = fp32_bytes * static_cast<double>(shape.heads);
  return (2 * bytes.master + widths * bytes.operand) * width + log_sums;
}

/// Values in the feature maps of convolutions of an image.
struct Maps {
  double convolutions = 0;
  double largest = 0;

  void add(std::int64_t channels, std::int64_t height, std::int64_t width) {
    const auto values = static_cast<double>(channels * height * width);
    convolutions += values;
    largest = std::max(largest, values);
  }
};

std::int64_t halved(std::int64_t pixels) { return (pixels + 1) / 2; }

/// The first map of a bottleneck with a stride is counted as if the stride already applied.
Maps maps_of(const ResNetShape& shape) {
  Maps maps;
  std::int64_t height = shape.height, width = shape.width_pixels;
  const auto shrink = [&] {
    height = halved(height);
    width = halved(width);
  };
  if (shape.is_large) shrink();
  maps.add(shape.width, height, width);
  if (shape.is_large) shrink();
  const std::int64_t expansion = shape.convolutions == 3 ? 4 : 1;
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    if (stage > 0) shrink();
    const std::int64_t channels = shape.width << stage;
    for (std::int64_t block = 0; block < shape.blocks[stage]; ++block) {
      for (std::int64_t i = 0; i + 1 < shape.convolutions; ++i) maps.add(channels, height, width);
      maps.add(channels * expansion, height, width);
    }
    if (stage > 0 || expansion > 1) maps.add(channels * expansion, height, width);
  }
  return maps;
}

}  // namespace

double frozen_bytes(const ValueBytes& values) {
  const bool has_copies = values.operand < values.master;
  return values.master + (has_copies ? values.operand : 0);
}

Resident state_bytes(std::int64_t parameters, const Storage& storage) {
  const auto count = static_cast<double>(parameters);
  return {.parameters = rounded(count * frozen_bytes(storage.values)),
          .gradients = rounded(count * storage.gradient),
          .optimizer = rounded(count * storage.moments)};
}

Resident sixteen_bit_state(std::int64_t parameters) {
  return {.parameters = 2 * parameters, .gradients = 2 * parameters, .optimizer = 4 * parameters};
}

std::int64_t gpt2_parameters(const TransformerShape& shape, std::int64_t vocab) {
  const std::int64_t width = shape.width;
  return (vocab + shape.tokens) * width + shape.layers * (12 * width * width + 13 * width) +
         2 * width;
}

std::int64_t transformer_activations(const TransformerShape& shape, const ValueBytes& bytes,
                                     Recompute recompute) {
  const auto width = static_cast<double>(shape.width);
  const double blocks = static_cast<double>(shape.layers) * kept_by_block(shape, bytes, recompute);
  // The input of the block that runs again is counted already.
  const double one_block = recompute == Recompute::full
                               ? kept_by_block(shape, bytes, Recompute::none) -
                                     kept_by_block(shape, bytes, Recompute::full)
                               : 0;
  const double around = around_blocks_of(shape, recompute) * width * (bytes.master / fp32_bytes);
  return rounded(static_cast<double>(shape.tokens) * (blocks + one_block + around));
}

std::int64_t sixteen_bit_activations(const TransformerShape& shape) {
  return 34 * shape.tokens * shape.layers * shape.width;
}

std::int64_t resnet_activations(const ResNetShape& shape, std::int64_t bytes_per_value) {
  const Maps maps = maps_of(shape);
  const auto image = static_cast<double>(shape.channels * shape.height * shape.width_pixels);
  const double values = image + 2 * maps.convolutions + around_maps * maps.largest;
  return rounded(values * static_cast<double>(bytes_per_value));
}

std::vector<Device> device_presets() {
  constexpr std::int64_t gigabyte = 1'000'000'000;
  return {{"24 GB", 24 * gigabyte}, {"80 GB", 80 * gigabyte}, {"141 GB", 141 * gigabyte}};
}

std::int64_t largest_micro_batch(std::int64_t bytes, const Resident& resident,
                                 std::int64_t bytes_per_sample, std::int64_t window_samples) {
  const double room =
      static_cast<double>(bytes) * (1 - kPlanMargin) - static_cast<double>(resident.total());
  if (room <= 0) return 0;
  const auto fitting = static_cast<std::int64_t>(
      room / static_cast<double>(std::max<std::int64_t>(1, bytes_per_sample)));
  return std::min(fitting, window_samples);
}

RunCost run_cost(double tokens, const Offer& offer) {
  const double hours = tokens / offer.tokens_per_second / 3600;
  return {.hours = hours, .money = hours * offer.price_per_hour};
}

OfferComparison compare(const Offer& first, const Offer& second) {
  const double time_ratio = first.tokens_per_second / second.tokens_per_second;
  const double price_ratio = second.price_per_hour / first.price_per_hour;
  return {.time_ratio = time_ratio,
          .cost_ratio = time_ratio * price_ratio,
          .break_even_price = first.price_per_hour / time_ratio,
          .break_even_tokens_per_second = first.tokens_per_second * price_ratio};
}

}  // namespace accrue::memory
