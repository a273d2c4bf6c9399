#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "accrue/core/loss.h"
#include "accrue/kernels/prepared_weight.h"

namespace accrue::kernels {

inline constexpr std::int64_t ignored_label = -100;

/// The loss of a row with logits x, label t and weight w:
///   w * ((1 - e) * -log p[t] + e / V * sum over j of -log p[j] + z * logsumexp(x)^2),
/// p = softmax(x). e is label smoothing (Szegedy et al., arXiv:1512.00567) as
/// torch.nn.functional.cross_entropy defines it; z the weight of the z-loss that keeps logits near
/// zero (Chowdhery et al., PaLM, arXiv:2204.02311, section 5). With a soft cap c the logits are
/// c * tanh(x / c) everywhere in this (Gemma 2, arXiv:2408.00118, section 2).
struct CrossEntropyOptions {
  /// fp32 of the targets' shape, finite and not negative; undefined: 1 for every row. A row of
  /// weight 0 is ignored.
  at::Tensor row_weights = {};
  std::int64_t ignored = ignored_label;  ///< rows of this label count for nothing
  double label_smoothing = 0;            ///< e, in [0, 1)
  double z_loss = 0;                     ///< z, not negative
  double soft_cap = 0;                   ///< c, at most 40; 0: none
};

struct LinearCrossEntropyOptions {
  CrossEntropyOptions loss = {};
  /// [V], a master, which is added to the logits; undefined: none. Its gradient goes where the
  /// weight's does.
  at::Tensor bias = {};
  /// What the gradients are multiplied with: the upstream gradient that the sum will get. Rounded
  /// to the sum's precision; finite and not 0.
  double gradient_scale = 1;
  /// Rows of a chunk. 0: as many as keep what is held within 32 MB, the gradient of `hidden`
  /// included if it has memory of its own, but at least 19.4 MB, or 386 bytes for
  /// each class where that is more (or one row).
  std::int64_t chunk_rows = 0;
  /// The gradient of `hidden` is left in hidden's own memory: for a caller who is its last reader.
  /// Its values are lost then, and autograd refuses a backward pass that wants them (the version
  /// counter tells). Nothing is overwritten if no gradient of `hidden` is wanted, and where it
  /// is not contiguous its gradient has memory of its own.
  bool overwrite_hidden = false;
  /// The upstream gradient that backward will come with, by the caller's word: where it is
  /// gradient_scale it is not read from a device. In host memory it is always read.
  std::optional<double> upstream = {};
};

/// Cross-entropy of hidden · weightᵀ (+ bias) against targets, as a sum and the weight of the rows
/// that count; the head and the loss in one operation.
///
/// hidden [..., C] fp32, fp64 or bf16; weight [V, C] master; targets [...] int64 in [0, V) or
/// ignored. Works by chunks of rows: logits are never whole. If a gradient is wanted, those of
/// `hidden` and `weight` are made in the forward pass of the same chunk, so that beside its
/// arguments the loss holds the gradient of `hidden` and one chunk: for each of its rows V logits
/// (V exponentials in bf16 and a few thousand logits in fp32 for bf16), and the row's gradient
/// where it is summed elsewhere than it stays. Where none is wanted a chunk is a few thousand
/// logits a row. In bf16 the logits' gradient is rounded twice, as an exponential and as itself;
/// sums, the loss and the target's softmax are those of fp32 logits.
///
/// The weight's gradient goes into its open slot, chunk by chunk, each after its sum was found
/// finite; one that is not ends the operation, and the sum tells. The slot's contribution is then
/// never done(): nothing of it is folded, and a sum that it was added to is left `unfinished`. The
/// gradient of `hidden` is 0 from that chunk on.
///
/// The gradients are those of gradient_scale * sum: backward throws a usage Error for another
/// upstream gradient where a slot took part. (Without one the gradients are rescaled.)
Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, PreparedWeight& prepared,
                          const LinearCrossEntropyOptions& options = {});

/// Cross-entropy of logits [..., K] that are at hand: a classifier's few classes. It is computed in
/// fp32 (fp64 for fp64) by plain operators of ATen, on any device and for any upstream gradient.
Loss cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                   const CrossEntropyOptions& options = {});

/// The weight of either loss, from the targets alone. Throws a usage Error naming the row where a
/// weight is not finite or negative.
double label_weight(const at::Tensor& targets, const at::Tensor& row_weights = {},
                    std::int64_t ignored = ignored_label);

}  // namespace accrue::kernels
