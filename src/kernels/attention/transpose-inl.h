// Transposes of 32-bit elements within registers; compiled once per instruction set.
#if defined(ACCRUE_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_TRANSPOSE_INL_H_
#undef ACCRUE_KERNELS_TRANSPOSE_INL_H_
#else
#define ACCRUE_KERNELS_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// The number of columns of a matrix that a transpose turns into rows at a time: a 128-bit block.
constexpr std::size_t transposed_columns = 4;

/// The value at `from`, whatever its type, in the lanes of D.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_bits(D d, const T* from) {
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(from));
}

template <class D>
HWY_INLINE void store_words(hn::Vec<D> words, D d, Bf16* to) {
  hn::StoreU(words, d, reinterpret_cast<hn::TFromD<D>*>(to));
}

template <class D>
struct Quad {
  hn::Vec<D> v[transposed_columns];
};

/// Eight columns, with the first four separate from the others.
template <class D>
struct Quads {
  Quad<D> first, second;
};

#if HWY_TARGET == HWY_SCALAR

template <class D, class T>
HWY_INLINE Quad<D> load_columns(D d, const T* from, std::size_t) {
  constexpr std::size_t elements = sizeof(hn::TFromD<D>) / sizeof(T);
  Quad<D> columns;
  for (std::size_t j = 0; j < transposed_columns; ++j)
    columns.v[j] = load_bits(d, from + j * elements);
  return columns;
}

template <class D>
HWY_INLINE Quads<D> load_pair_columns(D d, const Bf16* from, std::size_t stride) {
  const auto pair = [&](std::size_t column) {
    return hn::Set(d, from[column].bits | std::uint32_t{from[stride + column].bits} << 16);
  };
  Quads<D> columns;
  for (std::size_t j = 0; j < transposed_columns; ++j) {
    columns.first.v[j] = pair(j);
    columns.second.v[j] = pair(transposed_columns + j);
  }
  return columns;
}

#else

/// Loads blocks of 128 bits, or of D's size if that is less; the next block is `stride` elements
/// after the previous one.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from, std::size_t stride) {
  constexpr std::size_t blocks = sizeof(hn::TFromD<D>) * hn::MaxLanes(D()) / 16;
  if constexpr (blocks <= 1) {
    return load_bits(d, from);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, from + blocks / 2 * stride, stride),
                       load_blocks(half, from, stride));
  }
}

/// Each block is transposed: lane j of a block in v[i] comes from lane i of that block in v[j].
template <class D>
HWY_INLINE Quad<D> transpose_blocks(D d, const Quad<D>& rows) {
  const hn::Repartition<std::uint64_t, D> wide;
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, rows.v[0], rows.v[1]));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, rows.v[2], rows.v[3]));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, rows.v[0], rows.v[1]));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, rows.v[2], rows.v[3]));
  return {{hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)),
           hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)),
           hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)),
           hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23))}};
}

/// The first four columns, of 32 bits each, of as many rows as D has lanes: lane i of v[j] is
/// column j of row i. The rows are `stride` elements apart.
template <class D, class T>
HWY_INLINE Quad<D> load_columns(D d, const T* from, std::size_t stride) {
  Quad<D> rows;
  for (std::size_t j = 0; j < transposed_columns; ++j)
    rows.v[j] = load_blocks(d, from + j * stride, transposed_columns * stride);
  return transpose_blocks(d, rows);
}

/// The first eight columns, of 16 bits each, of twice as many rows: lane i holds those of rows 2 i
/// and, in its upper half, 2 i + 1.
template <class D>
HWY_INLINE Quads<D> load_pair_columns(D d, const Bf16* from, std::size_t stride) {
  const hn::Repartition<std::uint16_t, D> half;
  Quads<D> rows;
  for (std::size_t j = 0; j < transposed_columns; ++j, from += 2 * stride) {
    const auto even = load_blocks(half, from, 2 * transposed_columns * stride);
    const auto odd = load_blocks(half, from + stride, 2 * transposed_columns * stride);
    rows.first.v[j] = hn::BitCast(d, hn::InterleaveLower(half, even, odd));
    rows.second.v[j] = hn::BitCast(d, hn::InterleaveUpper(half, even, odd));
  }
  return {transpose_blocks(d, rows.first), transpose_blocks(d, rows.second)};
}

#endif

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
