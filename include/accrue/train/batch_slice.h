#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <vector>

#include "accrue/batch/micro_batch.h"

namespace accrue {

/// How `step` and related functions split a batch: its samples are the first dimension. For another
/// batch type, overload both functions in its namespace. batch_size throws a usage Error if the
/// batch has no such dimension.
std::int64_t batch_size(const at::Tensor& batch);
inline at::Tensor batch_slice(const at::Tensor& batch, std::int64_t begin, std::int64_t end) {
  return batch.slice(0, begin, end);
}
/// For several tensors with the same samples, for example inputs and targets. Throws a usage Error
/// if there are none or their numbers of samples differ.
std::int64_t batch_size(const std::vector<at::Tensor>& batch);
std::vector<at::Tensor> batch_slice(const std::vector<at::Tensor>& batch, std::int64_t begin,
                                    std::int64_t end);
namespace batch {
std::int64_t batch_size(const MicroBatch& batch);
/// Takes rows, with the samples in them if the batch is packed. Tokens are divided evenly, because
/// a MicroBatch does not mark which inputs are padding.
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
