#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "accrue/memory/offload.h"
#include "accrue/memory/shard_scope.h"

namespace accrue::memory {

/// Visits parts [0, count) of a pass over the state, in order. If the state is offloaded, the
/// tensors touched(part) that a part uses are in memory when it is visited, and those of the next
/// part are being read.
template <class Touched, class Visit>
void for_parts(std::size_t count, const Touched& touched, const Visit& visit) {
  const bool moves = is_offloading();
  std::vector<at::Tensor> now, next;
  if (moves && count > 0) next = touched(std::size_t{0});
  for (std::size_t part = 0; part < count; ++part) {
    if (moves) {
      now = std::exchange(next, {});
      if (part + 1 < count) next = touched(part + 1);
      keep_in_memory(now, next);
    }
    visit(part);
  }
}

/// Elements of a part of an offloaded tensor that is read at once: 64 MiB in fp32.
inline constexpr std::int64_t kPieceElements = std::int64_t{1} << 24;

/// Calls visit(begin, count) for ranges of a contiguous tensor's elements, in order: one range of
/// all elements, or of those that this process keeps (kept_part()); if the tensor is offloaded,
/// ranges of kPieceElements, each of which is in memory when it is visited.
template <class Visit>
void for_pieces(const at::Tensor& tensor, const Visit& visit) {
  const std::int64_t elements = tensor.numel();
  if (!is_offloaded(tensor)) {
    const ElementRange kept = kept_part(tensor);
    visit(kept.begin, kept.elements);
    return;
  }
  const at::Tensor flat = tensor.detach().view({-1});
  const auto begin = [](std::size_t piece) {
    return static_cast<std::int64_t>(piece) * kPieceElements;
  };
  const auto count = [&](std::size_t piece) {
    return std::min(kPieceElements, elements - begin(piece));
  };
  for_parts(
      static_cast<std::size_t>((elements + kPieceElements - 1) / kPieceElements),
      [&](std::size_t piece) { return std::vector{flat.narrow(0, begin(piece), count(piece))}; },
      [&](std::size_t piece) { visit(begin(piece), count(piece)); });
}

/// Keeps this tensor in memory, and no other part of the offloaded state. Does nothing if the
/// tensor is not offloaded.
inline void keep_only(const at::Tensor& tensor) {
  if (tensor.defined() && is_offloaded(tensor)) keep_in_memory({&tensor, 1});
}

/// Zeros. Memory in the file, or in that of a divided model (memory/shard_scope.h), is zero when it
/// is allocated, so that nothing is written there.
inline at::Tensor zeros(at::IntArrayRef sizes, const at::TensorOptions& options) {
  if (!(is_offloading() || has_shard_scope()) || !options.device().is_cpu())
    return at::zeros(sizes, options);
  // at::empty() fills the memory if libtorch is to be deterministic.
  const at::Tensor made = at::detail::empty_cpu(sizes, options);
  return is_offloaded(made) || is_in_shard_scope(made) ? made : made.zero_();
}

}  // namespace accrue::memory
