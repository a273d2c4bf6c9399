#include "kernels/attention/attention_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention/layout-inl.h"
#include "kernels/attention/softmax-inl.h"
#include "kernels/attention/tile-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

/// Allocates consecutive pieces of the caller's scratch.
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
  const KeyRange keys = layout.seen_by_tiles(begin, end);
  for (std::size_t key = keys.begin / layout.panel * layout.panel; key < keys.end;
       key += layout.panel) {
    const std::size_t last = std::min(end, layout.last_tile_end(key + layout.panel));
    for (std::size_t row = std::max(begin, layout.first_tile(key)); row < last; row += tile_rows) {
      const std::size_t needed =
          std::min(round_up(layout.seen_by_tile(row).end - key, lanes), layout.panel);
      multiply<false, T>(layout.width, {queries + row * layout.depth, layout.depth},
                         {panels + key * layout.width, layout.panel},
                         products + (row - begin) * layout.scores + key, layout.scores, needed,
                         false);
    }
  }
}

/// Memory for a row of the mask's words, in whole blocks, and for a vector that begins at the last.
template <class T>
std::uint32_t* mask_words(const Layout<T>& layout, Scratch<T>& scratch) {
  return reinterpret_cast<std::uint32_t*>(
      scratch.take(round_up(layout.length, mask_block) + mask_block));
}

/// The current one of the head's heads of queries.
struct Member {
  std::size_t index;
  const DropoutMask* mask;

  static Member of(const Head& head, std::size_t index) {
    return {index, head.masks == nullptr ? nullptr : head.masks + index};
  }
};

/// The beginning of a member's part in rows of heads side by side.
template <class Stored>
const Stored* part_of(const Head& head, const Member& member, const void* rows) {
  return static_cast<const Stored*>(rows) + member.index * head.width;
}
template <class Stored>
Stored* part_of(const Head& head, const Member& member, void* rows) {
  return static_cast<Stored*>(rows) + member.index * head.width;
}

template <class T>
struct ForwardBuffers {
  T *queries, *values, *key_panels, *scores, *sums;
  std::uint32_t* words;

  HWY_INLINE ForwardBuffers(const Layout<T>& layout, Scratch<T>& scratch) {
    for (T** matrix : {&queries, &values, &key_panels}) *matrix = scratch.take(layout.matrix());
    scores = scratch.take(layout.score_block());
    sums = scratch.take(tile_rows * layout.depth);
    words = mask_words(layout, scratch);
  }
};

/// Computes exponentials after dropout of a tile's scores, in place, and zeros for keys of the tile
/// that are not seen.
template <class T>
void softmax_tile(const Layout<T>& layout, const RowCap<T>& cap, const RowMask<T>& mask,
                  std::size_t tile, T* scores, T* norms, T* log_sums) {
  const KeyRange keys = layout.seen_by_tile(tile);
  const std::size_t last = std::min(tile + tile_rows, layout.length);
  for (std::size_t row = tile; row < last; ++row) {
    T* row_scores = scores + (row - tile) * layout.scores;
    const KeyRange seen = layout.seen_by(row);
    cap.apply(row_scores, seen);
    norms[row - tile] = exponentiate_row(row_scores + seen.begin, seen.size(),
                                         keys.end - seen.begin, log_sums[row]);
    std::fill(row_scores + keys.begin, row_scores + seen.begin, T(0));
    mask.draw(row, seen);
    mask.apply(row_scores, seen);
  }
}

/// Computes attention with packed queries, keys and values.
template <class T, class Stored>
void attend_member(const HeadForward& task, const Layout<T>& layout,
                   const ForwardBuffers<T>& buffers, const Member& member) {
  const RowMask<T> mask(member.mask, buffers.words);
  const RowCap<T> cap(task.head.soft_cap, nullptr);
  T* log_sums = static_cast<T*>(task.log_sums) + member.index * task.log_sums_stride;
  Stored* out = part_of<Stored>(task.head, member, task.out);
  for (std::size_t begin = 0; begin < layout.queries(); begin += query_block) {
    const std::size_t end = std::min(begin + query_block, layout.queries());
    multiply_seen_keys(layout, begin, end, buffers.queries, buffers.key_panels, buffers.scores);
    for (std::size_t tile = begin; tile < end; tile += tile_rows) {
      T* tile_scores = buffers.scores + (tile - begin) * layout.scores;
      const KeyRange keys = layout.seen_by_tile(tile);
      const std::size_t last = std::min(tile + tile_rows, layout.length);
      T norms[tile_rows];
      softmax_tile(layout, cap, mask, tile, tile_scores, norms, log_sums);
      multiply<false, T>(keys.size(), {tile_scores + keys.begin, layout.scores},
                         {buffers.values + keys.begin * layout.depth, layout.depth}, buffers.sums,
                         layout.depth, layout.depth, false);
      for (std::size_t row = tile; row < last; ++row)
        unpack_row(layout, buffers.sums + (row - tile) * layout.depth, 1 / norms[row - tile],
                   out + row * task.out_stride);
    }
  }
}

template <class T, class Stored>
void head_forward_of(const HeadForward& task) {
  const Head& head = task.head;
  const Layout<T> layout(head);
  Scratch<T> scratch(task.scratch);
  const ForwardBuffers<T> buffers(layout, scratch);
  // The memory of the values holds the keys until they are transposed.
  pack_rows<T, Stored>(layout, head.k, head.kv_stride, T(1), buffers.values);
  transpose_to_panels(layout, buffers.values, buffers.key_panels);
  pack_rows<T, Stored>(layout, head.v, head.kv_stride, T(1), buffers.values);
  for (std::size_t index = 0; index < head.group; ++index) {
    const Member member = Member::of(head, index);
    pack_rows<T, Stored>(layout, part_of<Stored>(head, member, head.q), head.q_stride,
                         static_cast<T>(head.scale), buffers.queries);
    attend_member<T, Stored>(task, layout, buffers, member);
  }
}

/// The packed operands of one head's backward, and the memory of its sums.
template <class T>
struct BackwardBuffers {
  T *queries, *keys, *key_panels, *value_panels, *grads;
  T *grad_keys, *grad_values, *grad_queries;
  T *scores, *grad_scores, *slopes;
  std::uint32_t* words;

  HWY_INLINE BackwardBuffers(const Layout<T>& layout, Scratch<T>& scratch) {
    for (T** matrix :
         {&queries, &keys, &key_panels, &value_panels, &grads, &grad_keys, &grad_values})
      *matrix = scratch.take(layout.matrix());
    scores = scratch.take(layout.score_block());
    grad_scores = scratch.take(layout.score_block());
    grad_queries = scratch.take(tile_rows * layout.depth);
    slopes = scratch.take(layout.scores);
    words = mask_words(layout, scratch);
  }
};

/// Adds the contribution of the block's queries of one member to grad_keys and grad_values of all
/// keys that they see. The first block of the first member that sees a key overwrites.
template <class T>
void add_key_gradients(const Layout<T>& layout, const BackwardBuffers<T>& buffers,
                       const Member& member, std::size_t begin, std::size_t end) {
  const KeyRange keys = layout.seen_by_tiles(begin, end);
  for (std::size_t key = keys.begin; key < keys.end; key += tile_rows) {
    const std::size_t first = layout.first_tile(key), from = std::max(begin, first);
    const std::size_t last = std::min(end, layout.last_tile_end(key + tile_rows));
    const std::size_t offset = (from - begin) * layout.scores + key;
    const std::size_t row = from * layout.depth, target = key * layout.depth;
    const bool seen_before = from > first || member.index > 0;
    multiply<true, T>(last - from, {buffers.scores + offset, layout.scores},
                      {buffers.grads + row, layout.depth}, buffers.grad_values + target,
                      layout.depth, layout.depth, seen_before);
    multiply<true, T>(last - from, {buffers.grad_scores + offset, layout.scores},
                      {buffers.queries + row, layout.depth}, buffers.grad_keys + target,
                      layout.depth, layout.depth, seen_before);
  }
}

/// Computes probabilities after dropout and score gradients of one tile of queries, in place, and
/// zeros for keys of the tile that are not seen.
template <class T>
void softmax_backward_tile(const Layout<T>& layout, const RowCap<T>& cap, const RowMask<T>& mask,
                           std::size_t tile, const T* log_sums, T* scores, T* grad_scores) {
  const KeyRange keys = layout.seen_by_tile(tile);
  for (std::size_t r = 0; r < tile_rows; ++r) {
    T *score_row = scores + r * layout.scores, *grad_row = grad_scores + r * layout.scores;
    const std::size_t query = tile + r;
    // A row of padding sees nothing.
    const KeyRange seen =
        query < layout.length ? layout.seen_by(query) : KeyRange{keys.end, keys.end};
    std::fill(score_row + keys.begin, score_row + seen.begin, T(0));
    std::fill(grad_row + keys.begin, grad_row + seen.begin, T(0));
    if (seen.size() == 0) continue;
    mask.draw(query, seen);
    mask.apply(grad_row, seen);
    cap.apply_with_slopes(score_row, seen);
    softmax_backward_row(score_row + seen.begin, grad_row + seen.begin, seen.size(),
                         keys.end - seen.begin, log_sums[query]);
    cap.multiply_by_slopes(grad_row, seen);
    mask.apply(score_row, seen);
  }
}

/// Writes the gradient of the member's queries, and adds to those of keys and values.
template <class T, class Stored>
void differentiate_member(const HeadBackward& task, const Layout<T>& layout,
                          const BackwardBuffers<T>& buffers, const Member& member) {
  const Head& head = task.head;
  const RowMask<T> mask(member.mask, buffers.words);
  const RowCap<T> cap(head.soft_cap, buffers.slopes);
  const T* log_sums = static_cast<const T*>(task.log_sums) + member.index * task.log_sums_stride;
  Stored* grad_q = part_of<Stored>(head, member, task.grad_q);
  for (std::size_t begin = 0; begin < layout.queries(); begin += query_block) {
    const std::size_t end = std::min(begin + query_block, layout.queries());
    multiply_seen_keys(layout, begin, end, buffers.queries, buffers.key_panels, buffers.scores);
    multiply_seen_keys(layout, begin, end, buffers.grads, buffers.value_panels,
                       buffers.grad_scores);
    for (std::size_t tile = begin; tile < end; tile += tile_rows) {
      const std::size_t offset = (tile - begin) * layout.scores;
      T* grad_scores = buffers.grad_scores + offset;
      const KeyRange keys = layout.seen_by_tile(tile);
      softmax_backward_tile(layout, cap, mask, tile, log_sums, buffers.scores + offset,
                            grad_scores);
      multiply<false, T>(keys.size(), {grad_scores + keys.begin, layout.scores},
                         {buffers.keys + keys.begin * layout.depth, layout.depth},
                         buffers.grad_queries, layout.depth, layout.depth, false);
      unpack_rows<T, Stored>(layout, buffers.grad_queries,
                             std::min(tile_rows, layout.length - tile), static_cast<T>(head.scale),
                             grad_q + tile * head.q_stride, head.q_stride);
    }
    add_key_gradients(layout, buffers, member, begin, end);
  }
}

template <class T, class Stored>
void head_backward_of(const HeadBackward& task) {
  const Head& head = task.head;
  const Layout<T> layout(head);
  Scratch<T> scratch(task.scratch);
  const BackwardBuffers<T> buffers(layout, scratch);
  // The memory of the gradients holds the values until they are transposed.
  pack_rows<T, Stored>(layout, head.v, head.kv_stride, T(1), buffers.grads);
  transpose_to_panels(layout, buffers.grads, buffers.value_panels);
  pack_rows<T, Stored>(layout, head.k, head.kv_stride, T(1), buffers.keys);
  transpose_to_panels(layout, buffers.keys, buffers.key_panels);
  for (std::size_t index = 0; index < head.group; ++index) {
    const Member member = Member::of(head, index);
    pack_rows<T, Stored>(layout, part_of<Stored>(head, member, task.grad_out), task.grad_out_stride,
                         T(1), buffers.grads);
    pack_rows<T, Stored>(layout, part_of<Stored>(head, member, head.q), head.q_stride,
                         static_cast<T>(head.scale), buffers.queries);
    differentiate_member<T, Stored>(task, layout, buffers, member);
  }
  unpack_rows<T, Stored>(layout, buffers.grad_keys, layout.length, T(1), task.grad_k,
                         head.kv_stride);
  unpack_rows<T, Stored>(layout, buffers.grad_values, layout.length, T(1), task.grad_v,
                         head.kv_stride);
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

// Upper bounds over all instruction sets.
constexpr std::size_t most_padding = 32, most_queries = 64;

std::size_t mask_words(std::size_t length) { return length + 2 * mask_block; }

std::size_t padded_matrix(std::size_t length, std::size_t width) {
  return (length + most_padding) * (width + most_padding);
}

std::size_t padded_row(std::size_t length) { return length + 2 * most_padding; }

std::size_t padded_scores(std::size_t length) { return most_queries * padded_row(length); }

}  // namespace

std::size_t head_forward_scratch(std::size_t length, std::size_t width) {
  return 3 * padded_matrix(length, width) + padded_scores(length) +
         most_padding * (width + most_padding) + mask_words(length);
}

std::size_t head_backward_scratch(std::size_t length, std::size_t width) {
  return 7 * padded_matrix(length, width) + 2 * padded_scores(length) +
         most_padding * (width + most_padding) + padded_row(length) + mask_words(length);
}

}  // namespace accrue::kernels::rows
#endif
