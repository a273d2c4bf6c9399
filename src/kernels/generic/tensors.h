#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "kernels/aten_element.h"

namespace accrue::kernels::generic {

/// Copies `host` to `device`, in stream order. The host does not wait: the copy is made from pinned
/// memory, which ATen keeps until it has been read.
inline at::Tensor copied_to(const at::Tensor& host, at::Device device) {
  if (host.device() == device) return host;
  if (!host.is_cpu() || device.is_cpu()) return host.to(device);
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

/// x in the precision of sums: x itself if it is fp32 or fp64.
inline at::Tensor widened(const at::Tensor& x) { return x.to(accumulation_dtype(x.scalar_type())); }

/// A tensor without other references, in another shape. For autograd it is not a view, so that a
/// caller may write to an operation's result.
inline at::Tensor shaped(const at::Tensor& own, at::IntArrayRef sizes) {
  return at::_unsafe_view(own, sizes);
}

inline at::Tensor numbers_on(const std::vector<std::int64_t>& numbers, at::Device device) {
  return copied_to(at::tensor(numbers, at::kLong), device);
}

}  // namespace accrue::kernels::generic
