#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::distributed {

/// The collectives that compression uses. All ranks must call the same ones in the same order, with
/// contiguous tensors of the same shape and dtype. Each call returns when its result is complete.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t world() const = 0;  ///< number of ranks, >= 1
  /// `rows` is [world, ...]: row r is sent to rank r. Row q of the result was sent by rank q.
  virtual at::Tensor all_to_all(const at::Tensor& rows) = 0;
  /// Returns [world, ...]; row q is `own` of rank q.
  virtual at::Tensor all_gather(const at::Tensor& own) = 0;
};

/// Adds rows[0], rows[1], ... in that order, in the memory of rows[0], and returns that memory.
at::Tensor add_in_order(const at::Tensor& rows);

/// Replaces `values` (one-dimensional, contiguous) by their sum over the ranks, added in rank
/// order, so that the result does not depend on arrival order and every rank has the same bits. A
/// reduce-scatter and an all-gather: each rank sends 2 (world - 1) / world times the bytes of
/// `values`, as in a ring. Returns the number of bytes that this rank sent.
std::int64_t ordered_sum(const at::Tensor& values, Exchange& exchange);

}  // namespace accrue::distributed
