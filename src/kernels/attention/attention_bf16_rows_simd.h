#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/mask.h"

namespace accrue::kernels::rows {

/// Vectorised passes around attention's bf16 products (attention_bf16.h). "Pairs" is the layout of
/// a product's right operand: of [K, N], rows 2 i and 2 i + 1 interleaved, [K / 2, N, 2].

/// Consecutive rows of one head in memory.
struct HeadRows {
  const Bf16* first;
  std::size_t stride;       ///< elements between rows
  std::size_t rows, width;  ///< numbers of rows and columns
};

/// Rows of whole depth, `stride` elements apart.
struct Rows {
  const Bf16* first;
  std::size_t stride;
};

/// to[padded_rows, depth] = the rows, zeros if there are none.
void copy_padded(const HeadRows& from, std::size_t padded_rows, std::size_t depth, Bf16* to);
/// The pairs [padded_rows / 2, depth, 2] of rows[padded_rows, depth].
void pair_rows(const Rows& rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs);
/// The pairs [depth / 2, stride, 2] of the transpose of rows[padded_rows, depth]; columns from
/// padded_rows to `stride` are not changed.
void pair_columns(const Rows& rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs,
                  std::size_t stride);
/// to[depth, rows] = from[rows, depth], rows a multiple of 32.
void transpose(const Bf16* from, std::size_t rows, std::size_t depth, Bf16* to);

/// Queries [first, first + rows) of a head and the part that they see of columns [begin, keys),
/// both multiples of 64.
struct QueryBlock {
  std::size_t first, rows, block_rows;  ///< rows beyond `rows` are padding; block_rows is even
  std::size_t length, begin, keys;
  std::size_t stride;  ///< of rows of scores and probabilities
  bool causal;
  std::size_t window;  ///< the most keys that a causal query sees, including its own; 0: all
  float scale;
  const DropoutMask* mask;
  std::uint32_t* words;      ///< for two rows of the mask
  std::size_t words_stride;  ///< distance of the second row's

  /// The first key that a row's query sees.
  std::size_t first_seen(std::size_t row) const {
    const std::size_t query = first + row;
    return window == 0 || query < window ? 0 : query + 1 - window;
  }
  /// The end of the keys that a row's query sees.
  std::size_t seen_end(std::size_t row) const { return causal ? first + row + 1 : length; }
};

/// p = e^(scale * scores - the row's largest) with dropout, zeros if nothing is seen; `sums`
/// receives each row's sum before dropout.
void softmax_block(const QueryBlock& block, const float* scores, Bf16* p, float* sums,
                   float* log_sums);
/// From scores and grads = dO·Vᵀ: the pairs of the probabilities with dropout, and the gradient of
/// the scaled scores as rows and as pairs. `scores` and `grads` are scratch.
void softmax_backward_block(const QueryBlock& block, float* scores, float* grads,
                            const float* log_sums, Bf16* p_pairs, Bf16* grad_rows,
                            Bf16* grad_pairs);

/// to[i, width] = factor[i] * from[i, depth].
void unpack_scaled(const float* from, std::size_t depth, std::size_t rows, std::size_t width,
                   const float* factors, void* to, std::size_t stride);
/// to[i, width] = factor * the transpose of from[depth, from_stride].
void unpack_transposed(const float* from, std::size_t from_stride, std::size_t rows,
                       std::size_t width, float factor, void* to, std::size_t stride);

}  // namespace accrue::kernels::rows
