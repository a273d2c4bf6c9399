#include "kernels/attention/attention_bf16.h"

#include <ATen/Context.h>

#include <algorithm>
#include <bit>

#include "kernels/attention/attention_bf16_rows_simd.h"
#include "kernels/attention/bf16_product.h"
#include "kernels/gemm/onednn_gemm.h"

namespace accrue::kernels::bf16_attention {
namespace {

using rows::Head;

// Rows of queries whose scores stay in the first two levels of cache. Half as many would skip more
// of the part beyond the diagonal, but pass twice as often over the sums of the keys' and values'
// gradients.
constexpr std::size_t query_block = 64;
// At most this many keys are processed at once, so that shapes and leading dimensions of products
// are few whatever the lengths.
constexpr std::size_t key_chunk = 256;
constexpr std::size_t depth_unit = 16;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The leading dimension of a matrix whose columns are keys: few values, as above.
constexpr std::size_t leading_dimension(std::size_t keys) {
  return keys < key_chunk ? std::bit_ceil(std::max(keys, query_block)) : round_up(keys, key_chunk);
}

/// Adjacent keys, in whole blocks.
struct KeyBlocks {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

/// Sizes of the padded operands. Padded rows and columns up to `keys` and `depth` are zero; the
/// part between `keys` and a stride is never read.
struct Layout {
  std::size_t length, width, keys, depth;
  std::size_t key_stride;    ///< row stride of matrices [depth, keys]
  std::size_t score_stride;  ///< row stride of blocks [queries, keys]
  bool causal;
  std::size_t window;

  Layout(std::size_t of_length, std::size_t of_width, bool is_causal, std::size_t of_window)
      : length(of_length),
        width(of_width),
        keys(round_up(of_length, query_block)),
        depth(round_up(of_width, depth_unit)),
        key_stride(leading_dimension(keys)),
        // This is not a power of two, so that a column does not map to few cache sets.
        score_stride(key_stride + query_block),
        causal(is_causal),
        window(of_window) {}
  explicit Layout(const Head& head) : Layout(head.length, head.width, head.causal, head.window) {}

  std::size_t key_rows() const { return keys * depth; }
  std::size_t key_columns() const { return depth * key_stride; }
  std::size_t query_rows() const { return query_block * depth; }
  std::size_t mask_row() const { return round_up(keys, mask_block); }
  std::size_t scores() const { return query_block * score_stride; }
  /// The keys, in whole blocks, that the block of queries from `first` on sees.
  KeyBlocks seen(std::size_t first) const {
    const std::size_t begin = window == 0 || first < window ? 0 : first + 1 - window;
    return {begin / query_block * query_block, causal ? first + query_block : keys};
  }
};

/// Allocates pieces of the caller's scratch, or counts their size if there is none.
class Scratch {
 public:
  explicit Scratch(void* start) : start_(static_cast<char*>(start)) {}

  template <class T>
  T* take(std::size_t elements) {
    const std::size_t begin = used_;
    used_ += round_up(elements * sizeof(T), 64);
    return start_ == nullptr ? nullptr : reinterpret_cast<T*>(start_ + begin);
  }
  std::size_t floats() const { return used_ / sizeof(float); }

 private:
  char* start_;
  std::size_t used_ = 0;
};

struct ForwardBuffers {
  Bf16 *rows, *key_columns, *value_pairs, *queries, *probabilities;
  float *scores, *result, *sums;
  std::uint32_t* words;

  ForwardBuffers(const Layout& layout, Scratch& scratch)
      : rows(scratch.take<Bf16>(layout.key_rows())),
        key_columns(scratch.take<Bf16>(layout.key_columns())),
        value_pairs(scratch.take<Bf16>(layout.key_rows())),
        queries(scratch.take<Bf16>(layout.query_rows())),
        probabilities(scratch.take<Bf16>(layout.scores())),
        scores(scratch.take<float>(layout.scores())),
        result(scratch.take<float>(layout.query_rows())),
        sums(scratch.take<float>(query_block)),
        words(scratch.take<std::uint32_t>(2 * layout.mask_row())) {}
};

struct BackwardBuffers {
  Bf16 *rows, *key_columns, *value_columns, *key_pairs;
  Bf16 *queries, *grads, *transposed, *probability_pairs, *score_grad_rows, *score_grad_pairs;
  float *scores, *score_grads, *result, *scales, *grad_keys, *grad_values;
  std::uint32_t* words;

  BackwardBuffers(const Layout& layout, Scratch& scratch)
      : rows(scratch.take<Bf16>(layout.key_rows())),
        key_columns(scratch.take<Bf16>(layout.key_columns())),
        value_columns(scratch.take<Bf16>(layout.key_columns())),
        key_pairs(scratch.take<Bf16>(layout.key_rows())),
        queries(scratch.take<Bf16>(layout.query_rows())),
        grads(scratch.take<Bf16>(layout.query_rows())),
        transposed(scratch.take<Bf16>(layout.query_rows())),
        probability_pairs(scratch.take<Bf16>(layout.scores())),
        score_grad_rows(scratch.take<Bf16>(layout.scores())),
        score_grad_pairs(scratch.take<Bf16>(layout.scores())),
        scores(scratch.take<float>(layout.scores())),
        score_grads(scratch.take<float>(layout.scores())),
        result(scratch.take<float>(layout.query_rows())),
        scales(scratch.take<float>(query_block)),
        grad_keys(scratch.take<float>(layout.key_columns())),
        grad_values(scratch.take<float>(layout.key_columns())),
        words(scratch.take<std::uint32_t>(2 * layout.mask_row())) {}
};

/// Multiplies by chunks of keys that are the columns of b.
void multiply_by_columns(const Product& product, bool accumulate) {
  for (std::size_t column = 0; column < product.columns; column += key_chunk) {
    Product part = product;
    part.columns = std::min(key_chunk, product.columns - column);
    part.b += 2 * column;
    part.c += column;
    multiply(part, accumulate);
  }
}

/// Multiplies by chunks of keys that are the terms.
void multiply_by_terms(const Product& product) {
  for (std::size_t term = 0; term < product.depth; term += key_chunk) {
    Product part = product;
    part.depth = std::min(key_chunk, product.depth - term);
    part.a += term;
    part.b += term * product.b_stride;
    multiply(part, term > 0);
  }
}

/// Keys or values of the head in place, or copied to `room` if something must be padded.
rows::Rows padded_rows(const Layout& layout, const Head& head, const void* of, Bf16* room) {
  const auto* first = static_cast<const Bf16*>(of);
  if (layout.length == layout.keys && layout.width == layout.depth)
    return {.first = first, .stride = head.kv_stride};
  rows::copy_padded(
      {.first = first, .stride = head.kv_stride, .rows = layout.length, .width = layout.width},
      layout.keys, layout.depth, room);
  return {.first = room, .stride = layout.depth};
}

/// Copies the block's rows of a matrix of the head, padded.
void copy_block(const Layout& layout, const void* of, std::size_t stride, std::size_t first,
                Bf16* to) {
  rows::copy_padded({.first = static_cast<const Bf16*>(of) + first * stride,
                     .stride = stride,
                     .rows = std::min(query_block, layout.length - first),
                     .width = layout.width},
                    query_block, layout.depth, to);
}

rows::QueryBlock block_of(const Layout& layout, const Head& head, const DropoutMask* mask,
                          std::size_t first, std::uint32_t* words) {
  const KeyBlocks keys = layout.seen(first);
  return {.first = first,
          .rows = std::min(query_block, layout.length - first),
          .block_rows = query_block,
          .length = layout.length,
          .begin = keys.begin,
          .keys = keys.end,
          .stride = layout.score_stride,
          .causal = layout.causal,
          .window = layout.window,
          .scale = static_cast<float>(head.scale),
          .mask = mask,
          .words = words,
          .words_stride = layout.mask_row()};
}

/// to[queries, keys] = rows · columns, `columns` the pairs [depth / 2, keys, 2].
void multiply_with_keys(const Layout& layout, KeyBlocks keys, const Bf16* rows, const Bf16* columns,
                        float* to) {
  multiply_by_columns({.rows = query_block,
                       .columns = keys.size(),
                       .depth = layout.depth,
                       .a = rows,
                       .a_stride = layout.depth,
                       .b = columns + 2 * keys.begin,
                       .b_stride = layout.key_stride,
                       .c = to + keys.begin,
                       .c_stride = layout.score_stride},
                      false);
}

/// to[queries, depth] = weights[queries, keys] · pairs[keys / 2, depth, 2].
void sum_over_keys(const Layout& layout, KeyBlocks keys, const Bf16* weights, const Bf16* pairs,
                   float* to) {
  multiply_by_terms({.rows = query_block,
                     .columns = layout.depth,
                     .depth = keys.size(),
                     .a = weights + keys.begin,
                     .a_stride = layout.score_stride,
                     .b = pairs + keys.begin * layout.depth,
                     .b_stride = layout.depth,
                     .c = to,
                     .c_stride = layout.depth});
}

/// to[depth, keys] += rowsᵀ · pairs[queries / 2, keys, 2].
void add_over_queries(const Layout& layout, KeyBlocks keys, const Bf16* rows, Bf16* transposed,
                      const Bf16* pairs, float* to) {
  rows::transpose(rows, query_block, layout.depth, transposed);
  multiply_by_columns({.rows = layout.depth,
                       .columns = keys.size(),
                       .depth = query_block,
                       .a = transposed,
                       .a_stride = query_block,
                       .b = pairs + 2 * keys.begin,
                       .b_stride = layout.score_stride,
                       .c = to + keys.begin,
                       .c_stride = layout.key_stride},
                      true);
}

/// The beginning of a member's part in rows of heads side by side, and its mask.
const Bf16* part_of(const Head& head, std::size_t member, const void* rows) {
  return static_cast<const Bf16*>(rows) + member * head.width;
}
Bf16* part_of(const Head& head, std::size_t member, void* rows) {
  return static_cast<Bf16*>(rows) + member * head.width;
}
const DropoutMask* mask_of(const Head& head, std::size_t member) {
  return head.masks == nullptr ? nullptr : head.masks + member;
}

/// Computes attention for one of the heads of queries; keys and values are packed.
void attend_member(const rows::HeadForward& task, const Layout& layout,
                   const ForwardBuffers& buffers, std::size_t member) {
  const Head& head = task.head;
  const Bf16* q = part_of(head, member, head.q);
  Bf16* out = part_of(head, member, task.out);
  float* log_sums = static_cast<float*>(task.log_sums) + member * task.log_sums_stride;
  for (std::size_t first = 0; first < layout.length; first += query_block) {
    const rows::QueryBlock block =
        block_of(layout, head, mask_of(head, member), first, buffers.words);
    const KeyBlocks keys = layout.seen(first);
    copy_block(layout, q, head.q_stride, first, buffers.queries);
    multiply_with_keys(layout, keys, buffers.queries, buffers.key_columns, buffers.scores);
    rows::softmax_block(block, buffers.scores, buffers.probabilities, buffers.sums,
                        log_sums + first);
    sum_over_keys(layout, keys, buffers.probabilities, buffers.value_pairs, buffers.result);
    for (std::size_t i = 0; i < block.rows; ++i) buffers.sums[i] = 1 / buffers.sums[i];
    rows::unpack_scaled(buffers.result, layout.depth, block.rows, layout.width, buffers.sums,
                        out + first * task.out_stride, task.out_stride);
  }
}

/// Writes the gradient of one of the heads of queries, and adds to those of keys and values.
void differentiate_member(const rows::HeadBackward& task, const Layout& layout,
                          const BackwardBuffers& buffers, std::size_t member) {
  const Head& head = task.head;
  const Bf16* q = part_of(head, member, head.q);
  const Bf16* grad_out = part_of(head, member, task.grad_out);
  Bf16* grad_q = part_of(head, member, task.grad_q);
  const float* log_sums = static_cast<const float*>(task.log_sums) + member * task.log_sums_stride;
  for (std::size_t first = 0; first < layout.length; first += query_block) {
    const rows::QueryBlock block =
        block_of(layout, head, mask_of(head, member), first, buffers.words);
    const KeyBlocks keys = layout.seen(first);
    copy_block(layout, q, head.q_stride, first, buffers.queries);
    copy_block(layout, grad_out, task.grad_out_stride, first, buffers.grads);
    multiply_with_keys(layout, keys, buffers.queries, buffers.key_columns, buffers.scores);
    multiply_with_keys(layout, keys, buffers.grads, buffers.value_columns, buffers.score_grads);
    rows::softmax_backward_block(block, buffers.scores, buffers.score_grads, log_sums + first,
                                 buffers.probability_pairs, buffers.score_grad_rows,
                                 buffers.score_grad_pairs);
    sum_over_keys(layout, keys, buffers.score_grad_rows, buffers.key_pairs, buffers.result);
    rows::unpack_scaled(buffers.result, layout.depth, block.rows, layout.width, buffers.scales,
                        grad_q + first * head.q_stride, head.q_stride);
    add_over_queries(layout, keys, buffers.grads, buffers.transposed, buffers.probability_pairs,
                     buffers.grad_values);
    add_over_queries(layout, keys, buffers.queries, buffers.transposed, buffers.score_grad_pairs,
                     buffers.grad_keys);
  }
}

}  // namespace

bool available() {
  // libtorch refuses the product while its oneDNN is switched off, which a program may do any time.
  if (!at::globalContext().userEnabledMkldnn()) return false;
  static const bool is_faster_and_works = onednn::multiplies_bf16() && multiplies();
  return is_faster_and_works;
}

std::size_t head_forward_scratch(std::size_t length, std::size_t width) {
  Scratch counting(nullptr);
  const ForwardBuffers buffers(Layout(length, width, true, 0), counting);
  return counting.floats();
}

std::size_t head_backward_scratch(std::size_t length, std::size_t width) {
  Scratch counting(nullptr);
  const BackwardBuffers buffers(Layout(length, width, true, 0), counting);
  return counting.floats();
}

void head_forward(const rows::HeadForward& task) {
  const Head& head = task.head;
  const Layout layout(head);
  Scratch scratch(task.scratch);
  const ForwardBuffers buffers(layout, scratch);
  const TileScope tiles;
  rows::pair_columns(padded_rows(layout, head, head.k, buffers.rows), layout.keys, layout.depth,
                     buffers.key_columns, layout.key_stride);
  rows::pair_rows(padded_rows(layout, head, head.v, buffers.rows), layout.keys, layout.depth,
                  buffers.value_pairs);
  for (std::size_t member = 0; member < head.group; ++member)
    attend_member(task, layout, buffers, member);
}

void head_backward(const rows::HeadBackward& task) {
  const Head& head = task.head;
  const Layout layout(head);
  Scratch scratch(task.scratch);
  const BackwardBuffers buffers(layout, scratch);
  const TileScope tiles;
  rows::pair_columns(padded_rows(layout, head, head.v, buffers.rows), layout.keys, layout.depth,
                     buffers.value_columns, layout.key_stride);
  const rows::Rows keys = padded_rows(layout, head, head.k, buffers.rows);
  rows::pair_columns(keys, layout.keys, layout.depth, buffers.key_columns, layout.key_stride);
  rows::pair_rows(keys, layout.keys, layout.depth, buffers.key_pairs);
  std::fill_n(buffers.grad_keys, layout.key_columns(), 0.0F);
  std::fill_n(buffers.grad_values, layout.key_columns(), 0.0F);
  std::fill_n(buffers.scales, query_block, static_cast<float>(head.scale));
  for (std::size_t member = 0; member < head.group; ++member)
    differentiate_member(task, layout, buffers, member);
  rows::unpack_transposed(buffers.grad_keys, layout.key_stride, layout.length, layout.width,
                          static_cast<float>(head.scale), task.grad_k, head.kv_stride);
  rows::unpack_transposed(buffers.grad_values, layout.key_stride, layout.length, layout.width, 1,
                          task.grad_v, head.kv_stride);
}

}  // namespace accrue::kernels::bf16_attention
