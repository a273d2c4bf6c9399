#include "distributed/reduce/reducible_sums.h"

#include <ATen/ATen.h>

#include "accrue/core/error.h"

namespace accrue::distributed {

using accum::Accumulation;
using accum::GradientBuffer;

bool adds_up(Accumulation accumulation) {
  return accumulation == Accumulation::fp32 || accumulation == Accumulation::fp64 ||
         accumulation == Accumulation::fixed;
}

void require_exact_sums(const GradientBuffer& buffer, Compression compress) {
  if (buffer.folds())
    throw usage_error("reduce gradients over ranks", "sums of gradients in a buffer",
                      "gradients that are folded into the optimizer",
                      "memory.gradients = \"buffer\" and an optimizer that goes with it");
  if (!adds_up(buffer.accumulation()))
    throw usage_error("reduce gradients over ranks", "sums in fp32, fp64 or fixed point",
                      accum::to_string(buffer.accumulation()), "precision.accumulate = \"fp32\"");
  if (compress == Compression::none) return;
  for (const at::Tensor& flat : buffer.flat())
    if (!flat.is_cpu())
      throw usage_error("compress what ranks send", "parameters on the CPU",
                        "some on " + flat.device().str(), "dist.compress = \"none\"");
}

std::vector<SlotPlace> places_of(const GradientBuffer& buffer) {
  std::vector<SlotPlace> places;
  for (const GradientBuffer::Entry& entry : buffer.entries()) {
    const at::Tensor& sum = entry.slot->main;
    std::size_t flat = 0;
    while (!sum.is_alias_of(buffer.flat()[flat])) ++flat;
    places.push_back({.flat = flat, .offset = sum.storage_offset(), .elements = sum.numel()});
  }
  return places;
}

std::int64_t elements_of(const ReduceOptions& options, const GradientBuffer& buffer) {
  const bool wide = buffer.accumulation() != Accumulation::fp32;
  return options.bucket_bytes / static_cast<std::int64_t>(wide ? sizeof(double) : sizeof(float));
}

}  // namespace accrue::distributed
