#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "distributed/compress/compression.h"
#include "distributed/compress/power_sgd.h"
#include "distributed/reduce/buckets.h"

namespace accrue::distributed {

/// Makes the Compressor for a `compression` other than none. powersgd factors the `matrices`.
std::unique_ptr<Compressor> make_compressor(Compression compression, std::int64_t elements,
                                            std::vector<MatrixRange> matrices, std::int64_t world);

/// `tensor`, at `offset` of a flat range, as a matrix; none if it has fewer dimensions.
std::optional<MatrixRange> as_matrix(const at::Tensor& tensor, std::int64_t offset);

/// The sums of a gradient buffer over the ranks, each flat allocation through a compressor.
class CompressedSums {
 public:
  /// `places` are those of the buffer's entries. Throws a usage Error unless its sums are fp32.
  CompressedSums(std::shared_ptr<accum::GradientBuffer> buffer, std::span<const SlotPlace> places,
                 Compression compression, std::int64_t world);

  /// Replaces the buffer's sums by those of all ranks, whose total weight (> 0) is given. If a
  /// sum is not finite on any rank, the result has elements that are not finite on all ranks
  /// (Compressor::sum).
  void sum(double weight, Exchange& exchange);

  /// Compressor::state() of each flat allocation, under "<number of the flat allocation>.".
  NamedParameters state(Exchange& exchange) const;
  void load_state(const StoredTensors& state, std::int64_t rank);

 private:
  std::shared_ptr<accum::GradientBuffer> buffer_;
  std::vector<std::unique_ptr<Compressor>> compressors_;  ///< in order of the flat allocations
};

}  // namespace accrue::distributed
