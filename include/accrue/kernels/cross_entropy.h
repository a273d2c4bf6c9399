#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "accrue/core/loss.h"
#include "accrue/kernels/prepared_weight.h"

namespace accrue::kernels {

inline constexpr std::int64_t ignored_label = -100;

/// The loss of a row with logits x, label t and weight w:
///   w * ((1 - e) * -log p[t] + e / V * sum over j of -log p[j] + z * logsumexp(x)^2),
/// p = softmax(x). e is label smoothing (Szegedy et al., arXiv:1512.00567) as in
/// torch.nn.functional.cross_entropy. z is the weight of the z-loss, which keeps logits near zero
/// (Chowdhery et al., PaLM, arXiv:2204.02311, section 5). With a soft cap c, all logits are
/// replaced by c * tanh(x / c) (Gemma 2, arXiv:2408.00118, section 2).
struct CrossEntropyOptions {
  /// fp32 of the targets' shape, finite and not negative; undefined: 1 for every row. A row of
  /// weight 0 is ignored.
  at::Tensor row_weights = {};
  std::int64_t ignored = ignored_label;  ///< rows with this label have no loss
  double label_smoothing = 0;            ///< e, in [0, 1)
  double z_loss = 0;                     ///< z, not negative
  double soft_cap = 0;                   ///< c, at most 40; 0: no cap
};

struct LinearCrossEntropyOptions {
  CrossEntropyOptions loss = {};
  /// [V], a master, added to the logits; undefined: none. Its gradient is stored like the
  /// weight's.
  at::Tensor bias = {};
  /// The factor of the gradients: the upstream gradient that the sum will get. Rounded to the sum's
  /// precision; finite and not 0.
  double gradient_scale = 1;
  /// Rows of a chunk. 0: as many as keep the memory held within 32 MB, including the gradient of
  /// `hidden` if it has separate memory, but at least 19.4 MB, or 386 bytes per class if that is
  /// more (or one row).
  std::int64_t chunk_rows = 0;
  /// Stores the gradient of `hidden` in hidden's memory, for a caller that is its last reader. The
  /// values of `hidden` are lost, and autograd refuses a backward pass that needs them (by the
  /// version counter). Nothing is overwritten if the gradient of `hidden` is not needed; if
  /// `hidden` is not contiguous, its gradient has separate memory.
  bool overwrite_hidden = false;
  /// The upstream gradient that backward will get, as stated by the caller: if it equals
  /// gradient_scale, it is not read from a device. In host memory it is always read.
  std::optional<double> upstream = {};
};

/// Cross-entropy of hidden · weightᵀ (+ bias) against targets, as a sum and the weight of the rows
/// that count; the head and the loss in one operation.
///
/// hidden: [..., C] fp32, fp64 or bf16; weight: [V, C] master; targets: [...] int64 in [0, V) or
/// ignored. Works in chunks of rows, so the logits are never complete in memory. If gradients are
/// needed, those of `hidden` and `weight` are computed in the forward pass of the same chunk.
/// Besides its arguments the loss then holds the gradient of `hidden` and one chunk: V logits per
/// row (for bf16, V exponentials in bf16 and a few thousand logits in fp32), and the row's gradient
/// if it is summed in other memory than it is kept in. Otherwise a chunk is a few thousand logits
/// per row. In bf16 the gradient of the logits is rounded twice, as an exponential and as itself;
/// sums, the loss and the target's softmax are those of fp32 logits.
///
/// The weight's gradient is added to its open slot chunk by chunk, after the chunk's sum was found
/// finite. A sum that is not finite ends the operation, and is returned. The slot's contribution is
/// then never done(): nothing of it is folded, and a sum that it was added to is left `unfinished`.
/// The gradient of `hidden` is 0 from that chunk on.
///
/// The gradients are those of gradient_scale * sum. If a slot was used, backward throws a usage
/// Error for another upstream gradient; otherwise it rescales the gradients.
Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, PreparedWeight& prepared,
                          const LinearCrossEntropyOptions& options = {});

/// Cross-entropy of complete logits [..., K], for the few classes of a classifier. Computed in fp32
/// (fp64 for fp64) by ATen's operators, on any device and for any upstream gradient.
Loss cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                   const CrossEntropyOptions& options = {});

/// The weight of either loss, from the targets alone. Throws a usage Error naming the row if a
/// weight is negative or not finite.
double label_weight(const at::Tensor& targets, const at::Tensor& row_weights = {},
                    std::int64_t ignored = ignored_label);

}  // namespace accrue::kernels
