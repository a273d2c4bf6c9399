// How attention_simd.cpp lays out its operands; compiled once per instruction set.
#if defined(ACCRUE_KERNELS_LAYOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_LAYOUT_INL_H_
#undef ACCRUE_KERNELS_LAYOUT_INL_H_
#else
#define ACCRUE_KERNELS_LAYOUT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "kernels/attention/attention_simd.h"
#include "kernels/attention/softmax-inl.h"
#include "kernels/attention/tile-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

constexpr std::size_t query_block = 64;  // rows whose scores stay in the second-level cache

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Sizes of the packed operands, in whole tiles with zero padding; and which keys are seen by which
/// queries.
template <class T>
struct Layout {
  std::size_t length, width;        // as given
  std::size_t panel;                // keys in one panel of a transposed operand
  std::size_t keys, depth, scores;  // padded length, padded width, stride of score rows
  bool causal;
  std::size_t window;  // as given, or more keys than there are

  explicit HWY_INLINE Layout(const Head& head)
      : length(head.length), width(head.width), causal(head.causal) {
    const std::size_t lanes = hn::Lanes(Lanes<T>());
    panel = tile_vectors * lanes;
    keys = round_up(length, std::max(panel, tile_rows));
    depth = round_up(width, lanes);
    // An odd number of cache lines, so that a column of scores does not map to few cache sets.
    scores = keys + 64 / sizeof(T);
    window = head.window == 0 ? keys + 1 : std::min(head.window, keys + 1);
  }
  std::size_t matrix() const { return keys * depth; }
  std::size_t block_rows() const { return std::min(keys, query_block); }
  std::size_t score_block() const { return block_rows() * scores; }
  std::size_t queries() const { return round_up(length, tile_rows); }

  /// The keys that a query sees.
  KeyRange seen_by(std::size_t query) const {
    return {query < window ? 0 : query + 1 - window, causal ? query + 1 : length};
  }
  /// The keys, in whole tiles, that a tile of queries sees.
  KeyRange seen_by_tile(std::size_t tile) const {
    return {seen_by(tile).begin / tile_rows * tile_rows, causal ? tile + tile_rows : queries()};
  }
  /// The keys, in whole tiles, that the tiles of queries [begin, end) see.
  KeyRange seen_by_tiles(std::size_t begin, std::size_t end) const {
    return {seen_by_tile(begin).begin, seen_by_tile(end - tile_rows).end};
  }
  /// The beginning of the first tile of queries that sees this key.
  std::size_t first_tile(std::size_t key) const { return causal ? key / tile_rows * tile_rows : 0; }
  /// The end of the last tile of queries that sees a key before `key_end`.
  std::size_t last_tile_end(std::size_t key_end) const {
    if (window > keys) return queries();
    return std::min(queries(), round_up(round_up(key_end, tile_rows) + window - 1, tile_rows));
  }
};

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
