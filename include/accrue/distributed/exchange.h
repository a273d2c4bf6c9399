#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::distributed {

/// The collectives that compression is made of. Ranks call the same ones in the same order, with
/// contiguous tensors of the same shape and dtype; each call returns when its result is complete.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t world() const = 0;  ///< how many ranks, >= 1
  /// `rows` is [world, ...]: row r goes to rank r. Row q of the result is what rank q sent here.
  virtual at::Tensor all_to_all(const at::Tensor& rows) = 0;
  /// Row q of the result, [world, ...], is rank q's `own`.
  virtual at::Tensor all_gather(const at::Tensor& own) = 0;
};

/// The sum of rows[0], rows[1], ..., added in that order, in the memory of rows[0].
at::Tensor add_in_order(const at::Tensor& rows);

/// Replaces `values` (one-dimensional, contiguous) by their sum over the ranks, added in order of
/// rank, so that it does not depend on who arrives first and every rank has the same bits. A
/// reduce-scatter and an all-gather: 2 (world - 1) / world times their bytes are sent by each rank,
/// as in a ring. Returns how many bytes this rank sent.
std::int64_t ordered_sum(const at::Tensor& values, Exchange& exchange);

}  // namespace accrue::distributed
