#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding_stream.h"

namespace accrue::accum {

/// Folds one contribution into one sum, in a single pass over `count` elements: sum[i] = [sum[i] +]
/// from[i]. If `add` is not set the old sum is not read. Elements that are not finite, or not below
/// `limit`, count as zero. All functions return the largest magnitude, including that of elements
/// that count as zero; infinity if one was not finite. A bf16 is passed as its bits. The result of
/// an element depends neither on the range nor on the instruction set.

double fold_fp64(const float* from, double* sum, std::size_t count, bool add);
double fold_bf16(const float* from, std::uint16_t* sum, std::size_t count, bool add);
/// The sum's value is sum - compensation.
double fold_bf16_kahan(const float* from, std::uint16_t* sum, std::uint16_t* compensation,
                       std::size_t count, bool add);

/// `first` is the index of from[0] within its slot, a multiple of kRoundingBlock.
double fold_bf16_stochastic(const float* from, std::uint16_t* sum, std::size_t count, bool add,
                            const RoundingStream& stream, std::uint64_t first);

/// sum += from / unit, rounded to nearest, ties to even. `limit` is at most unit * 2^50.
struct FixedScale {
  double per_unit;  ///< 1 / unit, a power of two
  double limit;
};
double fold_fixed(const float* from, std::int64_t* sum, std::size_t count, bool add,
                  const FixedScale& scale);
double fold_fixed(const double* from, std::int64_t* sum, std::size_t count, bool add,
                  const FixedScale& scale);

/// The largest magnitude of a contribution; infinity if an element is not finite.
double largest_of(const float* from, std::size_t count);
double largest_of(const double* from, std::size_t count);

/// The values of sums, as float (rounded to nearest) or double.
void read_bf16(const std::uint16_t* sum, std::size_t count, float* to);
void read_bf16_kahan(const std::uint16_t* sum, const std::uint16_t* compensation, std::size_t count,
                     float* to);
void read_fixed(const std::int64_t* sum, std::size_t count, double unit, float* to);
void read_fixed(const std::int64_t* sum, std::size_t count, double unit, double* to);
/// The largest magnitude of a fixed-point sum, in units.
std::int64_t largest_fixed(const std::int64_t* sum, std::size_t count);

}  // namespace accrue::accum
