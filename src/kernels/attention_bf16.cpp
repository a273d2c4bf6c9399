#include "attention_bf16.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <cmath>

#include "attention_bf16_rows.h"
#include "onednn_gemm.h"

namespace accrue::kernels::bf16_attention {
namespace {

using rows::Head;

constexpr std::size_t query_block = 32;  // rows whose scores stay in the first two levels of cache
// One kernel is compiled per shape: products go by at most so many keys, so that there are few.
constexpr std::size_t key_chunk = 256;
constexpr std::size_t depth_unit = 16;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Sizes of the padded operands; what was padded is zero.
struct Layout {
  std::size_t length, width, keys, depth, stride;
  bool causal;

  Layout(std::size_t of_length, std::size_t of_width, bool is_causal)
      : length(of_length),
        width(of_width),
        keys(round_up(of_length, query_block)),
        depth(round_up(of_width, depth_unit)),
        // Not a power of two, so that a column does not fall into few cache sets.
        stride(keys + query_block),
        causal(is_causal) {}
  explicit Layout(const Head& head) : Layout(head.length, head.width, head.causal) {}

  std::size_t matrix() const { return keys * depth; }
  std::size_t query_rows() const { return query_block * depth; }
  std::size_t scores() const { return query_block * stride; }
  /// How many keys, in whole blocks, the block of queries from `first` on sees.
  std::size_t seen(std::size_t first) const { return causal ? first + query_block : keys; }
};

/// Hands out pieces of the caller's scratch, or counts what they take where there is none.
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
  Bf16 *rows, *key_pairs, *value_pairs, *queries, *probabilities;
  float *scores, *result, *sums;
  std::uint32_t* words;

  ForwardBuffers(const Layout& layout, Scratch& scratch)
      : rows(scratch.take<Bf16>(layout.matrix())),
        key_pairs(scratch.take<Bf16>(layout.matrix())),
        value_pairs(scratch.take<Bf16>(layout.matrix())),
        queries(scratch.take<Bf16>(layout.query_rows())),
        probabilities(scratch.take<Bf16>(layout.scores())),
        scores(scratch.take<float>(layout.scores())),
        result(scratch.take<float>(layout.query_rows())),
        sums(scratch.take<float>(query_block)),
        words(scratch.take<std::uint32_t>(round_up(layout.length, mask_block))) {}
};

struct BackwardBuffers {
  Bf16 *rows, *key_columns, *value_columns, *key_pairs;
  Bf16 *queries, *grads, *transposed, *probability_pairs, *score_grad_rows, *score_grad_pairs;
  float *scores, *score_grads, *result, *scales, *grad_keys, *grad_values;
  std::uint32_t* words;

  BackwardBuffers(const Layout& layout, Scratch& scratch)
      : rows(scratch.take<Bf16>(layout.matrix())),
        key_columns(scratch.take<Bf16>(layout.matrix())),
        value_columns(scratch.take<Bf16>(layout.matrix())),
        key_pairs(scratch.take<Bf16>(layout.matrix())),
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
        grad_keys(scratch.take<float>(layout.matrix())),
        grad_values(scratch.take<float>(layout.matrix())),
        words(scratch.take<std::uint32_t>(round_up(layout.length, mask_block))) {}
};

/// c[rows, columns] (+)= a[rows, depth] · b, b as pairs of `b_stride` columns.
struct Product {
  std::size_t rows, columns, depth;
  const Bf16* a;
  std::size_t a_stride;
  const Bf16* b;
  std::size_t b_stride;
  float* c;
  std::size_t c_stride;
};

void multiply(const Product& p, bool accumulate) {
#ifdef CPUBLAS_BRGEMM_BF16BF16F32
  const auto size = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  at::native::cpublas::brgemm(size(p.rows), size(p.columns), size(p.depth), size(p.a_stride),
                              size(p.b_stride), size(p.c_stride), accumulate,
                              reinterpret_cast<const at::BFloat16*>(p.a),
                              reinterpret_cast<const at::BFloat16*>(p.b), p.c, true);
#else
  static_cast<void>(p);
  static_cast<void>(accumulate);
#endif
}

/// The keys are the columns.
void multiply_by_columns(const Product& product, bool accumulate) {
  for (std::size_t column = 0; column < product.columns; column += key_chunk) {
    Product part = product;
    part.columns = std::min(key_chunk, product.columns - column);
    part.b += 2 * column;
    part.c += column;
    multiply(part, accumulate);
  }
}

/// The keys are the terms.
void multiply_by_terms(const Product& product) {
  for (std::size_t term = 0; term < product.depth; term += key_chunk) {
    Product part = product;
    part.depth = std::min(key_chunk, product.depth - term);
    part.a += term;
    part.b += term * product.b_stride;
    multiply(part, term > 0);
  }
}

rows::HeadRows all_rows(const Head& head, const void* of) {
  return {.first = of, .stride = head.stride, .rows = head.length, .width = head.width};
}

/// The block's rows of a matrix of the head, padded.
void copy_block(const Layout& layout, const void* of, std::size_t stride, std::size_t first,
                Bf16* to) {
  rows::copy_padded({.first = static_cast<const Bf16*>(of) + first * stride,
                     .stride = stride,
                     .rows = std::min(query_block, layout.length - first),
                     .width = layout.width},
                    query_block, layout.depth, to);
}

rows::QueryBlock block_of(const Layout& layout, const Head& head, std::size_t first,
                          std::uint32_t* words) {
  return {.first = first,
          .rows = std::min(query_block, layout.length - first),
          .block_rows = query_block,
          .length = layout.length,
          .keys = layout.seen(first),
          .stride = layout.stride,
          .causal = layout.causal,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(layout.width))),
          .mask = head.mask,
          .words = words};
}

/// to[queries, keys] = rows · columns, `columns` the pairs [depth / 2, keys, 2].
void multiply_with_keys(const Layout& layout, std::size_t keys, const Bf16* rows,
                        const Bf16* columns, float* to) {
  multiply_by_columns({.rows = query_block,
                       .columns = keys,
                       .depth = layout.depth,
                       .a = rows,
                       .a_stride = layout.depth,
                       .b = columns,
                       .b_stride = layout.keys,
                       .c = to,
                       .c_stride = layout.stride},
                      false);
}

/// to[queries, depth] = weights[queries, keys] · pairs[keys / 2, depth, 2].
void sum_over_keys(const Layout& layout, std::size_t keys, const Bf16* weights, const Bf16* pairs,
                   float* to) {
  multiply_by_terms({.rows = query_block,
                     .columns = layout.depth,
                     .depth = keys,
                     .a = weights,
                     .a_stride = layout.stride,
                     .b = pairs,
                     .b_stride = layout.depth,
                     .c = to,
                     .c_stride = layout.depth});
}

/// to[depth, keys] += rowsᵀ · pairs[queries / 2, keys, 2].
void add_over_queries(const Layout& layout, std::size_t keys, const Bf16* rows, Bf16* transposed,
                      const Bf16* pairs, float* to) {
  rows::transpose(rows, query_block, layout.depth, transposed);
  multiply_by_columns({.rows = layout.depth,
                       .columns = keys,
                       .depth = query_block,
                       .a = transposed,
                       .a_stride = query_block,
                       .b = pairs,
                       .b_stride = layout.stride,
                       .c = to,
                       .c_stride = layout.keys},
                      true);
}

/// Gives the processor's tile registers back, where it has any.
void release_tiles() {
#ifdef CPUBLAS_BRGEMM_BF16BF16F32
  at::native::cpublas::brgemm_release(true);
#endif
}

}  // namespace

bool available() {
#ifdef CPUBLAS_BRGEMM_BF16BF16F32
  static const bool has_products = onednn::multiplies_bf16();
  return has_products;
#else
  return false;
#endif
}

std::size_t head_forward_scratch(std::size_t length, std::size_t width) {
  Scratch counting(nullptr);
  const ForwardBuffers buffers(Layout(length, width, true), counting);
  return counting.floats();
}

std::size_t head_backward_scratch(std::size_t length, std::size_t width) {
  Scratch counting(nullptr);
  const BackwardBuffers buffers(Layout(length, width, true), counting);
  return counting.floats();
}

void head_forward(const rows::HeadForward& task) {
  const Head& head = task.head;
  const Layout layout(head);
  Scratch scratch(task.scratch);
  const ForwardBuffers buffers(layout, scratch);
  auto* log_sums = static_cast<float*>(task.log_sums);
  rows::copy_padded(all_rows(head, head.k), layout.keys, layout.depth, buffers.rows);
  rows::pair_columns(buffers.rows, layout.keys, layout.depth, buffers.key_pairs);
  rows::copy_padded(all_rows(head, head.v), layout.keys, layout.depth, buffers.rows);
  rows::pair_rows(buffers.rows, layout.keys, layout.depth, buffers.value_pairs);

  for (std::size_t first = 0; first < layout.length; first += query_block) {
    const rows::QueryBlock block = block_of(layout, head, first, buffers.words);
    copy_block(layout, head.q, head.stride, first, buffers.queries);
    multiply_with_keys(layout, block.keys, buffers.queries, buffers.key_pairs, buffers.scores);
    rows::softmax_block(block, buffers.scores, buffers.probabilities, buffers.sums,
                        log_sums + first);
    sum_over_keys(layout, block.keys, buffers.probabilities, buffers.value_pairs, buffers.result);
    for (std::size_t i = 0; i < block.rows; ++i) buffers.sums[i] = 1 / buffers.sums[i];
    rows::unpack_scaled(buffers.result, layout.depth, block.rows, layout.width, buffers.sums,
                        static_cast<Bf16*>(task.out) + first * task.out_stride, task.out_stride);
  }
  release_tiles();
}

void head_backward(const rows::HeadBackward& task) {
  const Head& head = task.head;
  const Layout layout(head);
  Scratch scratch(task.scratch);
  const BackwardBuffers buffers(layout, scratch);
  const auto* log_sums = static_cast<const float*>(task.log_sums);
  rows::copy_padded(all_rows(head, head.v), layout.keys, layout.depth, buffers.rows);
  rows::pair_columns(buffers.rows, layout.keys, layout.depth, buffers.value_columns);
  rows::copy_padded(all_rows(head, head.k), layout.keys, layout.depth, buffers.rows);
  rows::pair_columns(buffers.rows, layout.keys, layout.depth, buffers.key_columns);
  rows::pair_rows(buffers.rows, layout.keys, layout.depth, buffers.key_pairs);
  std::fill_n(buffers.grad_keys, layout.matrix(), 0.0F);
  std::fill_n(buffers.grad_values, layout.matrix(), 0.0F);

  float scale = 1;
  for (std::size_t first = 0; first < layout.length; first += query_block) {
    const rows::QueryBlock block = block_of(layout, head, first, buffers.words);
    scale = block.scale;
    copy_block(layout, head.q, head.stride, first, buffers.queries);
    copy_block(layout, task.grad_out, task.grad_out_stride, first, buffers.grads);
    multiply_with_keys(layout, block.keys, buffers.queries, buffers.key_columns, buffers.scores);
    multiply_with_keys(layout, block.keys, buffers.grads, buffers.value_columns,
                       buffers.score_grads);
    rows::softmax_backward_block(block, buffers.scores, buffers.score_grads, log_sums + first,
                                 buffers.probability_pairs, buffers.score_grad_rows,
                                 buffers.score_grad_pairs);
    sum_over_keys(layout, block.keys, buffers.score_grad_rows, buffers.key_pairs, buffers.result);
    std::fill_n(buffers.scales, query_block, scale);
    rows::unpack_scaled(buffers.result, layout.depth, block.rows, layout.width, buffers.scales,
                        static_cast<Bf16*>(task.grad_q) + first * head.stride, head.stride);
    add_over_queries(layout, block.keys, buffers.grads, buffers.transposed,
                     buffers.probability_pairs, buffers.grad_values);
    add_over_queries(layout, block.keys, buffers.queries, buffers.transposed,
                     buffers.score_grad_pairs, buffers.grad_keys);
  }
  rows::unpack_transposed(buffers.grad_keys, layout.keys, layout.length, layout.width, scale,
                          task.grad_k, head.stride);
  rows::unpack_transposed(buffers.grad_values, layout.keys, layout.length, layout.width, 1,
                          task.grad_v, head.stride);
  release_tiles();
}

}  // namespace accrue::kernels::bf16_attention
