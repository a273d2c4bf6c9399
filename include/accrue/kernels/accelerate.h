#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accrue/core/parameter.h"
#include "accrue/core/user_model.h"

namespace accrue {

namespace kernels {
class AcceleratedScope;  // src/kernels/foreign/accelerated_scope.h
}

struct AccelerateOptions {
  /// The key of the dropout masks. If it is not set, it is drawn from libtorch's default generator,
  /// which torch::manual_seed sets.
  std::optional<std::uint64_t> seed{};
};

/// The numbers of operations that accrue ran for a model, by kind. libtorch ran all others.
struct AcceleratedCalls {
  std::int64_t products =
      0;  ///< with a trained weight: linear layers, cells, attention projections
  std::int64_t convolutions = 0;  ///< with the weight's gradient added by accrue
  std::int64_t embeddings = 0;
  std::int64_t layer_norms = 0;
  std::int64_t gelus = 0;
  std::int64_t attentions = 0;
  std::int64_t dropouts = 0;  ///< with masks by sample, without those of attention
};

/// During its lifetime, accrue runs operations of a model that was written without accrue, with the
/// kernels of its own layers. The model is not changed: libtorch's dispatcher calls accrue first,
/// only on the thread that constructed this object. The object may be destroyed on any thread;
/// libtorch then runs the next operation of the constructing thread.
///
///   const accrue::Accelerated accelerated = accrue::accelerate(model);
///   accrue::Accumulator acc(model, {.batch = accrue::Tokens{524'288}});
///   for (auto& micro : loader) {
///     acc.backward(loss_fn(model, micro));
///
/// While a graph is recorded, these run in accrue's kernels, for dense tensors on the CPU in fp32
/// or fp64 (products and attention also in bf16):
///
/// - products x · Wᵀ (+ bias) and x · W of matrices (at::addmm, at::mm, and operations made of
///   them: torch::nn::Linear, MultiheadAttention's projections, libtorch's recurrent cells) with W
///   a parameter of the model, and at::embedding and at::layer_norm (over one dimension, with a
///   bias) of its parameters: in the backward pass of an Accumulator or Stepper, gradients are
///   added to the parameters' sums in the product, without a temporary of the parameter's size;
/// - at::gelu in its tanh form, and at::scaled_dot_product_attention without a mask of the
///   caller;
/// - of at::convolution in fp32 (one to three spatial dimensions, also grouped or transposed) the
///   weight's gradient, if it has an open slot and oneDNN has a fast implementation: it is added to
///   the sum while it is converted to the weight's layout, without a tensor and a pass for it.
///   libtorch runs the rest of a convolution.
///
/// The results equal libtorch's up to rounding, and so do gradients in any use of autograd: tied
/// weights, hooks, torch::autograd::grad, second derivatives. Batch normalisations (whose two
/// gradients have one number per channel and result from the pass that computes the input's) and
/// everything else not listed (convolutions in other dtypes, sparse embeddings or ones scaled by
/// frequency, computed weights, forward-mode derivatives, evaluation under NoGradGuard) are
/// libtorch's, with the same bits. Under autocasting libtorch rounds the operands of products and
/// attention; a weight in fp32 gets an unrounded gradient.
///
/// Dropout is libtorch's until begin() sets the samples of a forward pass. A Trainer accelerates
/// its model itself (model.accelerate), including the forward pass without a graph before a
/// recomputation; evaluation is libtorch's.
class Accelerated {
 public:
  /// Takes the current parameters of a model. Throws a usage Error if this process has an
  /// out-of-tree device whose autocasting uses the same dispatch key.
  explicit Accelerated(const NamedParameters& parameters, const AccelerateOptions& options = {});
  ~Accelerated();
  Accelerated(const Accelerated&) = delete;
  Accelerated& operator=(const Accelerated&) = delete;

  /// Sets the samples of the next forward pass, in order. Passes with the same ids and the same
  /// `window` have the same masks. From then on dropout (at::dropout, at::feature_dropout, both
  /// also in place, and attention's) keeps elements by Philox4x32-10, keyed by (seed, window,
  /// sample id, number of the dropout in the pass, position within the sample): the masks are the
  /// same however the batch is split, in a replay, and in the second run of accrue::checkpoint.
  /// Samples are the first dimension of x, or the second of three or more, or equal parts of the
  /// first (heads, flattened positions); otherwise, and for alpha dropout, the mask is libtorch's.
  /// Only sizes decide: if positions come first and there are as many as samples, or a first
  /// dimension is a multiple of the samples by coincidence (a table of positions), the mask is
  /// valid but depends on the split.
  void begin(std::vector<std::int64_t> sample_ids, std::int64_t window = 0);

  const AcceleratedCalls& calls() const;

 private:
  std::unique_ptr<kernels::AcceleratedScope> scope_;
};

/// Accelerates a torch::nn module, its holder, a TorchScript module or another model with
/// named_parameters() or parameters(). Turn off TorchScript's optimizer (GraphOptimizerEnabledGuard
/// in torch::jit, with false): operations that it differentiates are not seen.
template <class Model>
requires detail::HasNamedParameters<Model> || detail::HasParameters<Model>
[[nodiscard]] Accelerated accelerate(const Model& model, const AccelerateOptions& options = {}) {
  return Accelerated(detail::named_parameters_of(model), options);
}

}  // namespace accrue
