#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <vector>

#include "accrue/batch/micro_batch.h"

namespace accrue {

/// How `step` and its relatives split a batch: its samples are the first dimension. Overload both
/// for a batch type of your own, in its namespace. batch_size throws a usage Error if the batch
/// has no such dimension.
std::int64_t batch_size(const at::Tensor& batch);
inline at::Tensor batch_slice(const at::Tensor& batch, std::int64_t begin, std::int64_t end) {
  return batch.slice(0, begin, end);
}
/// Takes tensors side by side, inputs and targets, say. Throws a usage Error unless there is at
/// least one and all have as many samples.
std::int64_t batch_size(const std::vector<at::Tensor>& batch);
std::vector<at::Tensor> batch_slice(const std::vector<at::Tensor>& batch, std::int64_t begin,
                                    std::int64_t end);
namespace batch {
std::int64_t batch_size(const MicroBatch& batch);
/// Takes rows, with the samples that lie in them if the batch is packed. Tokens are shared out
/// evenly: a MicroBatch does not say which of its inputs are padding.
MicroBatch batch_slice(const MicroBatch& batch, std::int64_t begin, std::int64_t end);
}  // namespace batch

namespace detail {

template <class Batch>
concept Sliceable = requires(const Batch& batch) {
  { batch_size(batch) } -> std::convertible_to<std::int64_t>;
  batch_slice(batch, std::int64_t{}, std::int64_t{});
};

}  // namespace detail
}  // namespace accrue
