#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace accrue::kernels {

/// The labels and weights of R rows; the terms are those of CrossEntropyOptions
/// (accrue/kernels/cross_entropy.h).
struct CrossEntropyRows {
  const std::int64_t* targets = nullptr;  ///< [R], each in [0, V) or `ignored`: the caller checked
  const float* row_weights = nullptr;     ///< [R], or null: 1
  std::int64_t ignored = -100;
  double label_smoothing = 0, z_loss = 0, soft_cap = 0;
  double gradient_scale = 1;
  /// [R], or null: 1. A further factor of each row's gradient, of any sign.
  const double* gradient_factors = nullptr;
};

/// Cross-entropy of rows whose logits are computed in blocks of classes (online softmax: Milakov &
/// Gimelshein, arXiv:1805.02867): each block's exponentials are relative to the largest logit so
/// far, which is kept, so that one factor for a row's block, computed in double, makes them
/// softmax. Nothing else of the logits is kept, so exponentials may be coarser than the sums.
class OnlineCrossEntropy {
 public:
  /// `labels` are those of `rows` rows; blocks have `block` classes, the last one fewer.
  OnlineCrossEntropy(const CrossEntropyRows& labels, std::int64_t rows, std::int64_t classes,
                     std::int64_t block);

  /// Takes logits[R, n], fp32 or fp64, of the block that begins with class `first`. Call once for
  /// each block, in order. `exponentials`, if given, receives the logits' exponentials: [R, n] in
  /// the logits' dtype (it may be the logits then) or bf16. Rows of both are contiguous. Rows that
  /// do not count are not read. If there is a soft cap, logits are capped in place.
  void add(std::int64_t first, at::Tensor& logits, at::Tensor* exponentials);

  /// Call after all blocks. Returns the sum of the rows' losses, in double and in the order of the
  /// rows, so that it does not depend on the number of threads. `losses` [R], if given, receives
  /// the loss of each row, 0 for those that do not count.
  double finish(double* losses = nullptr);

  /// Call after finish(). Turns exponentials[R, n] of classes from `first` on, all of one block,
  /// into gradient_scale times the sum's gradient, in place; zero in rows that do not count.
  void to_gradient(std::int64_t first, at::Tensor& exponentials) const;

 private:
  struct Row {
    double weight = 0;  // 0: does not count
    double factor = 1;  // of the gradient, besides the weight
    double top = -std::numeric_limits<double>::infinity();
    double sum = 0;                              // of exponentials relative to top
    double target = 0, total = 0;                // logits: the target's, and of all
    double scale = 0, shift = 0, at_target = 0;  // of the gradient, by finish()
  };
  double finish_row(Row& row) const;
  double& block_top(std::int64_t row, std::int64_t first);

  CrossEntropyRows labels_;
  std::int64_t classes_, block_, blocks_;
  std::vector<Row> rows_;
  std::vector<double> tops_;  // [R, blocks]: the reference of each block's exponentials
};

}  // namespace accrue::kernels
