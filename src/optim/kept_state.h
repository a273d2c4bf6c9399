#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/rank_slice.h"
#include "accrue/optim/state_precision.h"
#include "core/rounding_stream.h"

namespace accrue::optim {

/// Whether a moment's values may be negative.
enum class StateSign { any, not_negative };

/// One state of one parameter, zero at first, in its stored precision: unencoded ("plain"), or
/// decoded and encoded in ranges that begin at a multiple of 256 elements. Elements are counted in
/// the order of a contiguous tensor of the parameter's shape, from the range's first if only a
/// range is kept; its bits are those of the whole state there.
class KeptState {
 public:
  /// Throws a usage Error if the precision is not the parameter's and the parameter is not in
  /// fp32.
  KeptState(const at::Tensor& parameter, StateSign sign, StatePrecision precision,
            const std::optional<ElementRange>& range = {});

  bool is_plain() const { return format_ == Format::plain; }
  /// The values of a plain state; the bf16 values or codes of others.
  const at::Tensor& values() const { return values_; }
  /// One scale per 256 codes; undefined without codes.
  const at::Tensor& scales() const { return scales_; }

  /// Both are for a state in host memory that is not plain. Thread-safe.
  void decode(std::size_t begin, std::size_t count, float* to) const;
  void encode(std::size_t begin, std::size_t count, const float* from,
              const RoundingStream& stream) const;

  /// The whole state in the parameter's dtype: the values themselves if it is plain, and otherwise
  /// a copy, which assign() takes back.
  at::Tensor whole() const;
  void assign(const at::Tensor& whole, const RoundingStream& stream) const;

  /// The memory of these elements; the range begins at a multiple of 256.
  std::vector<at::Tensor> memory_of(const ElementRange& range) const;
  std::int64_t bytes() const;

 private:
  enum class Format { plain, bf16, signed_codes, unsigned_codes };
  static Format format_of(const at::Tensor& parameter, StateSign sign, StatePrecision precision);
  const std::array<float, 256>& values_of_codes() const;
  at::Tensor decoded_over_memory() const;
  at::Tensor decoded_by_operators() const;
  void assign_by_operators(const at::Tensor& whole, const RoundingStream& stream) const;
  bool is_coded() const {
    return format_ == Format::signed_codes || format_ == Format::unsigned_codes;
  }

  Format format_;
  std::size_t origin_;  ///< the beginning of the range in the parameter
  at::Tensor values_, scales_;
};

}  // namespace accrue::optim
