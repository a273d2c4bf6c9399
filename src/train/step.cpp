#include "accrue/train/step.h"

#include <numeric>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/thread_meter.h"
#include "micro_batch_size.h"

namespace accrue {

std::vector<at::Tensor> batch_slice(const std::vector<at::Tensor>& batch, std::int64_t begin,
                                    std::int64_t end) {
  std::vector<at::Tensor> slice;
  slice.reserve(batch.size());
  for (const at::Tensor& tensor : batch) slice.push_back(tensor.slice(0, begin, end));
  return slice;
}

namespace batch {
namespace {

/// The samples of rows [begin, end) of a packed batch.
void take_spans(const MicroBatch& batch, std::int64_t begin, std::int64_t end, MicroBatch& slice) {
  for (SampleSpan span : batch.spans) {
    if (span.row < begin || span.row >= end) continue;
    span.row -= begin;
    slice.spans.push_back(span);
    slice.sample_ids.push_back(span.sample_id);
  }
}

}  // namespace

MicroBatch batch_slice(const MicroBatch& batch, std::int64_t begin, std::int64_t end) {
  MicroBatch slice{.inputs = batch.inputs.slice(0, begin, end),
                   .targets = batch.targets.slice(0, begin, end)};
  if (batch.weights.defined()) slice.weights = batch.weights.slice(0, begin, end);
  if (!batch.spans.empty()) {
    take_spans(batch, begin, end, slice);
  } else if (!batch.sample_ids.empty()) {
    slice.sample_ids.assign(batch.sample_ids.begin() + begin, batch.sample_ids.begin() + end);
  }
  slice.tokens = batch.tokens * (end - begin) / batch_size(batch);
  return slice;
}

}  // namespace batch

namespace detail {

StepReport step_in_slices(const std::vector<at::Tensor>& parameters,
                          torch::optim::Optimizer& optimizer, std::int64_t samples,
                          const RunSlice& run, const StepOptions& options) {
  if (samples < 1 || options.micro_batch < 0) {
    throw usage_error(
        "accrue::step", "a batch of at least one sample and a micro_batch >= 0",
        std::to_string(samples) + " samples, micro_batch " + std::to_string(options.micro_batch),
        "micro_batch = 0 for automatic");
  }
  AccumulatorOptions accumulation{.clip_norm = options.clip_norm};
  accumulation.replay = [&run](const MicroRef& micro) {
    return run(micro.sample_ids.front(), micro.sample_ids.back() + 1);
  };
  Accumulator accumulator(parameters, accumulation);
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
    std::iota(rows.begin(), rows.end(), begin);
    accumulator.backward(run(begin, end), BatchSize{}, std::move(rows));
  };
  std::int64_t micro = options.micro_batch, done = 0;
  if (micro == 0) {
    // The first sample is the trial: whatever the split, the gradient is the same.
    memory::ThreadMeter meter;
    add(0, 1);
    done = 1;
    micro = train::decide_micro_batch({.bytes_per_sample = meter.peak(),
                                       .available_bytes = memory::available_bytes(),
                                       .window_samples = std::max<std::int64_t>(1, samples - 1)})
                .samples;
  }
  for (; done < samples; done += micro) add(done, std::min(done + micro, samples));
  StepReport report = accumulator.step(optimizer);
  report.samples = samples;
  report.micro_batch = std::min(micro, samples);
  return report;
}

}  // namespace detail
}  // namespace accrue
