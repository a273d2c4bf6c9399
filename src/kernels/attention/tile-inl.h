// A matrix product of register tiles for operands packed by attention_simd.cpp; compiled once per
// instruction set.
#if defined(ACCRUE_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_TILE_INL_H_
#undef ACCRUE_KERNELS_TILE_INL_H_
#else
#define ACCRUE_KERNELS_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// Rows of a tile: with two vectors of columns the sums take half of the registers.
constexpr std::size_t tile_rows = HWY_MAX_BYTES == 64 ? 8 : 4;
constexpr std::size_t tile_vectors = 2;

/// The position of an operand: element (row, k) of a is data[row * stride + k], or data[k * stride
/// + row] if it is read transposed.
template <class T>
struct Operand {
  const T* data;
  std::size_t stride;
};

template <std::size_t kVectors, bool kTransposed, class T>
HWY_INLINE void multiply_tile(std::size_t depth, Operand<T> a, Operand<T> b, T* c,
                              std::size_t c_stride, bool accumulate) {
  const Lanes<T> d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<Lanes<T>> sums[tile_rows][kVectors];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < tile_rows; ++r)
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[r][v] = accumulate ? load(d, c + r * c_stride + v * lanes) : hn::Zero(d);
  for (std::size_t k = 0; k < depth; ++k) {
    hn::Vec<Lanes<T>> columns[kVectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v)
      columns[v] = load(d, b.data + k * b.stride + v * lanes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < tile_rows; ++r) {
      const auto element =
          hn::Set(d, kTransposed ? a.data[k * a.stride + r] : a.data[r * a.stride + k]);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < kVectors; ++v)
        sums[r][v] = hn::MulAdd(element, columns[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < tile_rows; ++r)
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) store(sums[r][v], d, c + r * c_stride + v * lanes);
}

/// c[tile_rows, columns] (+)= a[tile_rows, depth] · b[depth, columns]; columns a multiple of the
/// lanes.
template <bool kTransposed, class T>
HWY_NOINLINE void multiply(std::size_t depth, Operand<T> a, Operand<T> b, T* c,
                           std::size_t c_stride, std::size_t columns, bool accumulate) {
  const std::size_t lanes = hn::Lanes(Lanes<T>());
  std::size_t j = 0;
  for (; j + tile_vectors * lanes <= columns; j += tile_vectors * lanes)
    multiply_tile<tile_vectors, kTransposed>(depth, a, {b.data + j, b.stride}, c + j, c_stride,
                                             accumulate);
  for (; j < columns; j += lanes)
    multiply_tile<1, kTransposed>(depth, a, {b.data + j, b.stride}, c + j, c_stride, accumulate);
}

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
