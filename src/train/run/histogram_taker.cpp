#include "train/run/histogram_taker.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include "accrue/memory/offload_passes.h"
#include "core/histogram_counter.h"
#include "train/config/gradient_folding.h"

namespace accrue::train {
namespace {

/// Writes elements [begin, begin + count) of a tensor to `to`.
using ReadElements = std::function<void(std::int64_t begin, std::int64_t count, double* to)>;

constexpr std::int64_t kLeastElementsOfAPart = 1 << 15;
constexpr std::int64_t kMostParts = 16;
constexpr std::int64_t kElementsOfABlock = 2048;

HistogramCounter counter_of(std::int64_t begin, std::int64_t end, const ReadElements& read) {
  HistogramCounter counter;
  std::array<double, kElementsOfABlock> block;
  for (; begin < end; begin += kElementsOfABlock) {
    const std::int64_t count = std::min(kElementsOfABlock, end - begin);
    read(begin, count, block.data());
    counter.add(std::span(block).first(static_cast<std::size_t>(count)));
  }
  return counter;
}

/// The parts depend only on the number of elements, and are added in order: the sums have the same
/// bits for any number of threads.
Histogram histogram_of(std::int64_t elements, const ReadElements& read) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(elements / kLeastElementsOfAPart, 1, kMostParts);
  std::vector<HistogramCounter> counters(static_cast<std::size_t>(parts));
  at::parallel_for(0, parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part)
      counters[static_cast<std::size_t>(part)] =
          counter_of(elements * part / parts, elements * (part + 1) / parts, read);
  });
  HistogramCounter all;
  for (const HistogramCounter& counter : counters) all.add(counter);
  return all.histogram();
}

Histogram histogram_of(const at::Tensor& weights) {
  const at::Tensor values = weights.detach().cpu().contiguous();
  return histogram_of(values.numel(), [&](std::int64_t begin, std::int64_t count, double* to) {
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kBFloat16, at::kHalf, values.scalar_type(), "histogram of weights", [&] {
          const scalar_t* const from = values.const_data_ptr<scalar_t>() + begin;
          std::transform(from, from + count, to,
                         [](scalar_t value) { return static_cast<double>(value); });
        });
  });
}

Histogram histogram_of(const accum::GradientSource& where_it_lies, double scale,
                       std::int64_t elements) {
  const accum::GradientSource sum = where_it_lies.on_host();
  return histogram_of(elements, [&](std::int64_t begin, std::int64_t count, double* to) {
    sum.read(begin, count, to);
    for (double* value = to; value < to + count; ++value) *value *= scale;
  });
}

std::vector<NamedHistogram> histograms_of(const accum::MeanGradient& gradient) {
  std::vector<NamedHistogram> histograms;
  if (!gradient.has_values() || gradient.shard() != nullptr) return histograms;
  const auto& entries = gradient.buffer().entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    memory::keep_only(entries[i].slot->main);
    histograms.push_back({entries[i].name, histogram_of(gradient.source(i), gradient.scale(),
                                                        entries[i].parameter.numel())});
  }
  return histograms;
}

}  // namespace

HistogramTaker::HistogramTaker(const RunContext& run, const BatchControl& batch) {
  const auto& every = run.work.config.observe.histograms;
  if (every && run.ranks.is_first()) cadence_ = batch.cadence(*every, "observe.histograms");
}

void HistogramTaker::see(const accum::MeanGradient& gradient, std::int64_t step) {
  if (!cadence_ || !cadence_->due(step)) return;
  RECORD_USER_SCOPE("histograms");
  cadence_->done();
  seen_ = {.step = step, .gradients = histograms_of(gradient)};
  weights_.clear();
  for (const accum::GradientBuffer::Entry& entry : gradient.buffer().entries())
    weights_.push_back({entry.name, entry.parameter});
}

void HistogramTaker::tell(const RunLog& log) {
  if (!seen_) return;
  RECORD_USER_SCOPE("histograms");
  for (const NamedParameter& weight : weights_) {
    memory::keep_only(weight.tensor);
    seen_->weights.push_back({weight.name, histogram_of(weight.tensor)});
  }
  log.histograms(*std::exchange(seen_, std::nullopt));
}

std::string histogram_remark(const Config& config, const RankSlice& slice) {
  if (!config.observe.histograms) return {};
  if (folds_gradients(config))
    return "histograms are of weights alone: gradients are folded into the optimizer as they are "
           "made, and none is kept";
  if (slice != RankSlice{})
    return "histograms are of weights alone: each rank has a part of the gradients";
  return {};
}

}  // namespace accrue::train
