#include "train/plan/activation_placement.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>

#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/filled_with_zeros.h"
#include "accrue/memory/offload.h"
#include "data/fetch.h"

namespace accrue::train {
namespace {

/// The free bytes of the machine, and of the budget if one is set.
std::int64_t free_bytes() {
  const std::optional<std::int64_t> budget = memory::tensor_budget();
  if (!budget) return memory::available_bytes();
  memory::release_cached();  // free lists must not count as used
  const std::int64_t left = std::max<std::int64_t>(0, *budget - memory::usage().reserved);
  return std::min(left, memory::available_bytes());
}

}  // namespace

ActivationPlacement decide_activation_placement(const ActivationNeeds& needs) {
  const std::int64_t bytes = needs.bytes_per_sample * needs.window_samples;
  ActivationPlacement place{
      .in_file = bytes > needs.available_bytes / 4, .bytes = bytes, .reason = {}};
  place.reason = "the activations at the cuts of " + std::to_string(needs.window_samples) +
                 " samples take " + format_bytes(bytes) +
                 (place.in_file ? ", more than a quarter of the " : ", at most a quarter of the ") +
                 format_bytes(needs.available_bytes) + " free: kept " +
                 (place.in_file ? "in a mapped file in the run's folder" : "in memory");
  return place;
}

ActivationPlacement choose_activation_placement(const Workload& work, std::int64_t window_samples) {
  const std::int64_t bytes_per_sample =
      cut_bytes_per_sample(*work.model, data::fetch_one(*work.data.train));
  return decide_activation_placement({.bytes_per_sample = bytes_per_sample,
                                      .window_samples = window_samples,
                                      .available_bytes = free_bytes()});
}

std::int64_t cut_bytes_per_sample(models::Trainable& model, const batch::MicroBatch& one_sample) {
  const at::NoGradGuard no_grad;
  const ForwardContext context = batch::evaluation_context(one_sample);
  std::int64_t all = 0, largest = 0;
  models::Activations activations;
  for (const models::Segment& segment : model.segments()) {
    std::int64_t at_cut = 0;
    for (const at::Tensor& tensor : activations)
      at_cut += static_cast<std::int64_t>(tensor.nbytes());
    all += at_cut;
    largest = std::max(largest, at_cut);
    memory::keep_in_memory({});  // offloaded state of the segments before leaves memory
    const memory::FilledWithZeros whole(segment.weights ? segment.weights()
                                                        : std::vector<at::Tensor>());
    activations = models::run_segment(segment, activations, one_sample, context);
  }
  return all + largest;
}

}  // namespace accrue::train
