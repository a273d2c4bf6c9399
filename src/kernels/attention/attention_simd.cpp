#include "kernels/attention/attention_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

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

/// Sizes of the packed operands: every tile is whole, what was padded is zero.
template <class T>
struct Layout {
  std::size_t length, width;        // as given
  std::size_t panel;                // keys in one panel of a transposed operand
  std::size_t keys, depth, scores;  // padded length, padded width, stride of score rows
  bool causal;

  explicit HWY_INLINE Layout(const Head& head)
      : length(head.length), width(head.width), causal(head.causal) {
    const std::size_t lanes = hn::Lanes(Lanes<T>());
    panel = tile_vectors * lanes;
    keys = round_up(length, std::max(panel, tile_rows));
    depth = round_up(width, lanes);
    // An odd number of cache lines, so that a column of scores does not fall into few cache sets.
    scores = keys + 64 / sizeof(T);
  }
  std::size_t matrix() const { return keys * depth; }
  std::size_t block_rows() const { return std::min(keys, query_block); }
  std::size_t score_block() const { return block_rows() * scores; }
  std::size_t queries() const { return round_up(length, tile_rows); }

  /// How many keys a query sees.
  std::size_t seen_by(std::size_t query) const { return causal ? query + 1 : length; }
  /// How many keys, in whole tiles, a tile of queries sees.
  std::size_t seen_by_tile(std::size_t tile) const { return causal ? tile + tile_rows : queries(); }
  /// Where the first tile of queries begins that sees this key.
  std::size_t first_tile(std::size_t key) const { return causal ? key / tile_rows * tile_rows : 0; }
};

/// Hands out consecutive pieces of the caller's scratch.
template <class T>
class Scratch {
 public:
  explicit Scratch(void* start) : next_(static_cast<T*>(start)) {}
  T* take(std::size_t elements) {
    T* piece = next_;
    next_ += round_up(elements, 64 / sizeof(T));
    return piece;
  }

 private:
  T* next_;
};

/// to[keys, depth] = scale * from, zero-padded.
template <class T, class Stored>
void pack_rows(const Layout<T>& layout, const void* from, std::size_t stride, T scale, T* to) {
  const Lanes<T> d;
  const auto factor = hn::Set(d, scale);
  for (std::size_t row = 0; row < layout.keys; ++row) {
    T* target = to + row * layout.depth;
    if (row >= layout.length) {
      std::fill_n(target, layout.depth, T(0));
      continue;
    }
    const auto* source = static_cast<const Stored*>(from) + row * stride;
    for_each_vector(d, layout.width, [&](std::size_t i, std::size_t count) HWY_ATTR {
      hn::StoreU(hn::Mul(load(d, source + i, count), factor), d, target + i);
    });
  }
}

/// The transpose of rows[keys, depth] by panels of keys: panel p holds [width, panel], densely.
template <class T>
void transpose_to_panels(const Layout<T>& layout, const T* rows, T* panels) {
  for (std::size_t start = 0; start < layout.keys; start += layout.panel)
    for (std::size_t i = 0; i < layout.width; ++i, panels += layout.panel)
      for (std::size_t j = 0; j < layout.panel; ++j)
        panels[j] = rows[(start + j) * layout.depth + i];
}

/// to[rows, width] = scale * from[rows, depth], in the stored type.
template <class T, class Stored>
void unpack_row(const Layout<T>& layout, const T* from, T scale, Stored* to) {
  const Lanes<T> d;
  for_each_vector(d, layout.width, [&](std::size_t i, std::size_t count) HWY_ATTR {
    store(hn::Mul(load(d, from + i), hn::Set(d, scale)), d, to + i, count);
  });
}

template <class T, class Stored>
void unpack_rows(const Layout<T>& layout, const T* from, std::size_t rows, T scale, void* to,
                 std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row)
    unpack_row(layout, from + row * layout.depth, scale, static_cast<Stored*>(to) + row * stride);
}

/// products[block rows, keys they see] = queries · panels, panel by panel so that each stays in the
/// first-level cache.
template <class T>
void multiply_seen_keys(const Layout<T>& layout, std::size_t begin, std::size_t end,
                        const T* queries, const T* panels, T* products) {
  const std::size_t lanes = hn::Lanes(Lanes<T>());
  const std::size_t keys = layout.seen_by_tile(end - tile_rows);
  for (std::size_t key = 0; key < keys;
       key += layout.panel, panels += layout.width * layout.panel) {
    for (std::size_t row = std::max(begin, layout.first_tile(key)); row < end; row += tile_rows) {
      const std::size_t needed =
          std::min(round_up(layout.seen_by_tile(row) - key, lanes), layout.panel);
      multiply<false, T>(layout.width, {queries + row * layout.depth, layout.depth},
                         {panels, layout.panel}, products + (row - begin) * layout.scores + key,
                         layout.scores, needed, false);
    }
  }
}

/// Room for a row of the mask's words, in whole blocks.
template <class T>
std::uint32_t* mask_words(const Layout<T>& layout, Scratch<T>& scratch) {
  return reinterpret_cast<std::uint32_t*>(scratch.take(round_up(layout.length, mask_block)));
}

template <class T>
T score_scale(const Layout<T>& layout) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(layout.width)));
}

template <class T, class Stored>
void head_forward_of(const HeadForward& task) {
  const Head& head = task.head;
  const Layout<T> layout(head);
  Scratch<T> scratch(task.scratch);
  T* queries = scratch.take(layout.matrix());
  T* values = scratch.take(layout.matrix());
  T* key_panels = scratch.take(layout.matrix());
  T* scores = scratch.take(layout.score_block());
  T* sums = scratch.take(tile_rows * layout.depth);
  const RowMask<T> mask(head.mask, mask_words(layout, scratch));
  T* log_sums = static_cast<T*>(task.log_sums);
  // The values' place holds the keys until they are transposed.
  pack_rows<T, Stored>(layout, head.k, head.stride, T(1), values);
  transpose_to_panels(layout, values, key_panels);
  pack_rows<T, Stored>(layout, head.v, head.stride, T(1), values);
  pack_rows<T, Stored>(layout, head.q, head.stride, score_scale(layout), queries);

  for (std::size_t begin = 0; begin < layout.queries(); begin += query_block) {
    const std::size_t end = std::min(begin + query_block, layout.queries());
    multiply_seen_keys(layout, begin, end, queries, key_panels, scores);
    for (std::size_t tile = begin; tile < end; tile += tile_rows) {
      T* tile_scores = scores + (tile - begin) * layout.scores;
      const std::size_t keys = layout.seen_by_tile(tile);
      const std::size_t last = std::min(tile + tile_rows, layout.length);
      T norms[tile_rows];
      for (std::size_t row = tile; row < last; ++row) {
        T* row_scores = tile_scores + (row - tile) * layout.scores;
        const std::size_t seen = layout.seen_by(row);
        norms[row - tile] = exponentiate_row(row_scores, seen, keys, log_sums[row]);
        mask.draw(row, seen);
        mask.apply(row_scores, seen);
      }
      multiply<false, T>(keys, {tile_scores, layout.scores}, {values, layout.depth}, sums,
                         layout.depth, layout.depth, false);
      for (std::size_t row = tile; row < last; ++row)
        unpack_row(layout, sums + (row - tile) * layout.depth, 1 / norms[row - tile],
                   static_cast<Stored*>(task.out) + row * task.out_stride);
    }
  }
}

/// The packed operands of one head's backward, and where its sums are gathered.
template <class T>
struct BackwardBuffers {
  T *queries, *keys, *key_panels, *value_panels, *grads;
  T *grad_keys, *grad_values, *grad_queries;
  T *scores, *grad_scores;

  HWY_INLINE BackwardBuffers(const Layout<T>& layout, Scratch<T>& scratch) {
    for (T** matrix :
         {&queries, &keys, &key_panels, &value_panels, &grads, &grad_keys, &grad_values})
      *matrix = scratch.take(layout.matrix());
    scores = scratch.take(layout.score_block());
    grad_scores = scratch.take(layout.score_block());
    grad_queries = scratch.take(tile_rows * layout.depth);
  }
};

/// Adds what the block's queries give to grad_keys and grad_values of all keys that they see.
template <class T>
void add_key_gradients(const Layout<T>& layout, const BackwardBuffers<T>& buffers,
                       std::size_t begin, std::size_t end) {
  const std::size_t keys = layout.seen_by_tile(end - tile_rows);
  for (std::size_t key = 0; key < keys; key += tile_rows) {
    const std::size_t first = layout.first_tile(key), from = std::max(begin, first);
    const std::size_t offset = (from - begin) * layout.scores + key;
    const std::size_t row = from * layout.depth, target = key * layout.depth;
    const bool seen_before = from > first;
    multiply<true, T>(end - from, {buffers.scores + offset, layout.scores},
                      {buffers.grads + row, layout.depth}, buffers.grad_values + target,
                      layout.depth, layout.depth, seen_before);
    multiply<true, T>(end - from, {buffers.grad_scores + offset, layout.scores},
                      {buffers.queries + row, layout.depth}, buffers.grad_keys + target,
                      layout.depth, layout.depth, seen_before);
  }
}

/// Makes probabilities after dropout and score gradients of one tile of queries, in place.
template <class T>
void softmax_backward_tile(const Layout<T>& layout, const RowMask<T>& mask, std::size_t tile,
                           const T* log_sums, T* scores, T* grad_scores) {
  const std::size_t keys = layout.seen_by_tile(tile);
  for (std::size_t r = 0; r < tile_rows; ++r) {
    T *score_row = scores + r * layout.scores, *grad_row = grad_scores + r * layout.scores;
    const std::size_t query = tile + r;
    if (query < layout.length) {
      const std::size_t seen = layout.seen_by(query);
      mask.draw(query, seen);
      mask.apply(grad_row, seen);
      softmax_backward_row(score_row, grad_row, seen, keys, log_sums[query]);
      mask.apply(score_row, seen);
    } else {
      std::fill_n(score_row, keys, T(0));
      std::fill_n(grad_row, keys, T(0));
    }
  }
}

template <class T, class Stored>
void head_backward_of(const HeadBackward& task) {
  const Head& head = task.head;
  const Layout<T> layout(head);
  Scratch<T> scratch(task.scratch);
  const BackwardBuffers<T> buffers(layout, scratch);
  const RowMask<T> mask(head.mask, mask_words(layout, scratch));
  const T scale = score_scale(layout);
  // The gradients' place holds the values until they are transposed.
  pack_rows<T, Stored>(layout, head.v, head.stride, T(1), buffers.grads);
  transpose_to_panels(layout, buffers.grads, buffers.value_panels);
  pack_rows<T, Stored>(layout, task.grad_out, task.grad_out_stride, T(1), buffers.grads);
  pack_rows<T, Stored>(layout, head.k, head.stride, T(1), buffers.keys);
  transpose_to_panels(layout, buffers.keys, buffers.key_panels);
  pack_rows<T, Stored>(layout, head.q, head.stride, scale, buffers.queries);

  for (std::size_t begin = 0; begin < layout.queries(); begin += query_block) {
    const std::size_t end = std::min(begin + query_block, layout.queries());
    multiply_seen_keys(layout, begin, end, buffers.queries, buffers.key_panels, buffers.scores);
    multiply_seen_keys(layout, begin, end, buffers.grads, buffers.value_panels,
                       buffers.grad_scores);
    for (std::size_t tile = begin; tile < end; tile += tile_rows) {
      T* grad_scores = buffers.grad_scores + (tile - begin) * layout.scores;
      softmax_backward_tile(layout, mask, tile, static_cast<const T*>(task.log_sums),
                            buffers.scores + (tile - begin) * layout.scores, grad_scores);
      multiply<false, T>(layout.seen_by_tile(tile), {grad_scores, layout.scores},
                         {buffers.keys, layout.depth}, buffers.grad_queries, layout.depth,
                         layout.depth, false);
      unpack_rows<T, Stored>(layout, buffers.grad_queries,
                             std::min(tile_rows, layout.length - tile), scale,
                             static_cast<Stored*>(task.grad_q) + tile * head.stride, head.stride);
    }
    add_key_gradients(layout, buffers, begin, end);
  }
  unpack_rows<T, Stored>(layout, buffers.grad_keys, layout.length, T(1), task.grad_k, head.stride);
  unpack_rows<T, Stored>(layout, buffers.grad_values, layout.length, T(1), task.grad_v,
                         head.stride);
}

void head_forward(const HeadForward& task) {
  if (task.head.type == Element::fp32) return head_forward_of<float, float>(task);
  if (task.head.type == Element::bf16) return head_forward_of<float, Bf16>(task);
  head_forward_of<double, double>(task);
}

void head_backward(const HeadBackward& task) {
  if (task.head.type == Element::fp32) return head_backward_of<float, float>(task);
  if (task.head.type == Element::bf16) return head_backward_of<float, Bf16>(task);
  head_backward_of<double, double>(task);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(head_forward);
HWY_EXPORT(head_backward);

void head_forward(const HeadForward& task) { HWY_DYNAMIC_DISPATCH(head_forward)(task); }

void head_backward(const HeadBackward& task) { HWY_DYNAMIC_DISPATCH(head_backward)(task); }

namespace {

// Bounds over all instruction sets: none pads by more than these.
constexpr std::size_t most_padding = 32, most_queries = 64;

std::size_t mask_words(std::size_t length) { return length + mask_block; }

std::size_t padded_matrix(std::size_t length, std::size_t width) {
  return (length + most_padding) * (width + most_padding);
}

std::size_t padded_scores(std::size_t length) { return most_queries * (length + 2 * most_padding); }

}  // namespace

std::size_t head_forward_scratch(std::size_t length, std::size_t width) {
  return 3 * padded_matrix(length, width) + padded_scores(length) +
         most_padding * (width + most_padding) + mask_words(length);
}

std::size_t head_backward_scratch(std::size_t length, std::size_t width) {
  return 7 * padded_matrix(length, width) + 2 * padded_scores(length) +
         most_padding * (width + most_padding) + mask_words(length);
}

}  // namespace accrue::kernels::rows
#endif
