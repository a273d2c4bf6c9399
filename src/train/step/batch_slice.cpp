#include "accrue/train/batch_slice.h"

#include <string>

#include "accrue/core/error.h"

namespace accrue {
namespace {

constexpr const char* kWithSamples = "tensors with the samples in their first dimension";

std::int64_t samples_of(const at::Tensor& tensor, const std::string& which) {
  if (tensor.defined() && tensor.dim() > 0) return tensor.size(0);
  throw usage_error(
      "accrue::batch_size", kWithSamples,
      which + (tensor.defined() ? " of no dimension, a single number" : " that is undefined"),
      tensor.defined() ? "unsqueeze(0) for a batch of one sample" : "leaving it out of the batch");
}

}  // namespace

std::int64_t batch_size(const at::Tensor& batch) { return samples_of(batch, "a tensor"); }

std::int64_t batch_size(const std::vector<at::Tensor>& batch) {
  if (batch.empty())
    throw usage_error("accrue::batch_size", kWithSamples, "a vector without tensors",
                      "{inputs, targets}, or the inputs alone");
  const std::int64_t samples = samples_of(batch.front(), "tensor 0");
  for (std::size_t i = 1; i < batch.size(); ++i)
    if (const std::int64_t others = samples_of(batch[i], "tensor " + std::to_string(i));
        others != samples)
      throw usage_error("accrue::batch_size", "tensors of as many samples each",
                        std::to_string(samples) + " in tensor 0 and " + std::to_string(others) +
                            " in tensor " + std::to_string(i),
                        "the samples as the first dimension of every tensor; what all samples "
                        "share is no part of a batch");
  return samples;
}

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

std::int64_t batch_size(const MicroBatch& batch) {
  if (batch.own.is_there())
    throw usage_error("accrue::batch_size", "micro-batches whose samples are rows of tensors",
                      "one that carries a batch type of the program's own",
                      "that batch itself, with batch_size and batch_slice beside its type");
  if (batch.sequences_per_sample == 1) return samples_of(batch.inputs, "inputs");
  throw usage_error("accrue::batch_size", "samples of one sequence each",
                    std::to_string(batch.sequences_per_sample),
                    "micro-batches of pairs that are made by a data source");
}

MicroBatch batch_slice(const MicroBatch& batch, std::int64_t begin, std::int64_t end) {
  MicroBatch slice{.inputs = batch.inputs.slice(0, begin, end), .targets = {}};
  if (batch.targets.defined()) slice.targets = batch.targets.slice(0, begin, end);
  if (batch.weights.defined()) slice.weights = batch.weights.slice(0, begin, end);
  for (const auto& [name, column] : batch.columns)
    slice.columns[name] = column.slice(0, begin, end);
  if (!batch.spans.empty()) {
    take_spans(batch, begin, end, slice);
  } else if (!batch.sample_ids.empty()) {
    slice.sample_ids.assign(batch.sample_ids.begin() + begin, batch.sample_ids.begin() + end);
  }
  slice.tokens = batch.tokens * (end - begin) / batch_size(batch);
  return slice;
}

}  // namespace batch
}  // namespace accrue
