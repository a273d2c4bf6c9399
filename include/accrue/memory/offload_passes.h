#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "accrue/memory/offload.h"

namespace accrue::memory {

/// Elements of a part of an offloaded tensor that is read at once: 64 MiB in fp32. The next part
/// is read from the disk meanwhile.
inline constexpr std::int64_t kPieceElements = std::int64_t{1} << 24;

/// Calls visit(begin, count) for ranges of a contiguous tensor's elements, in order: one range of
/// all elements, or, if the tensor is offloaded, ranges of kPieceElements, each of which is in
/// memory when it is visited.
template <class Visit>
void for_pieces(const at::Tensor& tensor, const Visit& visit) {
  const std::int64_t elements = tensor.numel();
  if (!is_offloaded(tensor)) {
    visit(std::int64_t{0}, elements);
    return;
  }
  const at::Tensor flat = tensor.detach().view({-1});
  const auto piece = [&](std::int64_t begin) {
    return flat.narrow(0, begin, std::min(kPieceElements, elements - begin));
  };
  for (std::int64_t begin = 0; begin < elements; begin += kPieceElements) {
    const std::int64_t end = std::min(begin + kPieceElements, elements);
    const std::array<at::Tensor, 1> now{piece(begin)}, next{piece(end)};
    keep_in_memory(now, next);
    visit(begin, end - begin);
  }
}

/// Keeps this tensor in memory, and no other part of the offloaded state. Does nothing if the
/// tensor is not offloaded.
inline void keep_only(const at::Tensor& tensor) {
  if (tensor.defined() && is_offloaded(tensor)) keep_in_memory({&tensor, 1});
}

/// Zeros. Memory in the file is zero when it is allocated, so that nothing is written there.
inline at::Tensor zeros(at::IntArrayRef sizes, const at::TensorOptions& options) {
  if (!is_offloading()) return at::zeros(sizes, options);
  if (!options.device().is_cpu()) return at::zeros(sizes, options);
  // at::empty() fills the memory if libtorch is to be deterministic.
  const at::Tensor made = at::detail::empty_cpu(sizes, options);
  return is_offloaded(made) ? made : made.zero_();
}

}  // namespace accrue::memory
