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
  /// Keys the masks of dropout. Without one it is drawn from libtorch's default generator, which
  /// torch::manual_seed sets.
  std::optional<std::uint64_t> seed{};
};

/// How many operations of a model accrue has done, by kind. What is not counted was libtorch's.
struct AcceleratedCalls {
  std::int64_t products =
      0;  ///< with a trained weight: linear layers, cells, attention projections
  std::int64_t convolutions = 0;  ///< whose trained weight's gradient it adds
  std::int64_t embeddings = 0;
  std::int64_t layer_norms = 0;
  std::int64_t gelus = 0;
  std::int64_t attentions = 0;
  std::int64_t dropouts = 0;  ///< with masks by sample, attention's not among them
};

/// While it lives, accrue does operations of a model that knows nothing of accrue, as it does those
/// of its own layers. The model is not changed: libtorch's dispatcher asks accrue first, on the
/// thread that made this object and on no other. It may be destroyed on any thread: the next
/// operation of the one that made it is libtorch's.
///
///   const accrue::Accelerated accelerated = accrue::accelerate(model);
///   accrue::Accumulator acc(model, {.batch = accrue::Tokens{524'288}});
///   for (auto& micro : loader) {
///     acc.backward(loss_fn(model, micro));
///
/// While a graph is recorded, of dense tensors on the CPU in fp32 or fp64 (products and attention
/// in bf16, too), these run in accrue's kernels:
///
/// - products x · Wᵀ (+ bias) and x · W of matrices (at::addmm, at::mm, and what is made of them:
///   torch::nn::Linear, MultiheadAttention's projections, libtorch's recurrent cells) with W a
///   parameter of the model, and at::embedding and at::layer_norm (over one dimension, with a bias)
///   of its parameters: in the backward pass of an Accumulator or Stepper gradients are added to
///   the parameters' sums inside the product, without a temporary of the parameter's size;
/// - at::gelu in its tanh form, and at::scaled_dot_product_attention without a mask of the
///   caller's;
/// - of at::convolution in fp32 (one to three dimensions of pixels, grouped or transposed, too) the
///   weight's gradient, if it has an open slot and oneDNN a fast implementation: it is added to
///   the sum as it is brought into the weight's order, without a tensor and a pass of its own. The
///   rest of a convolution is libtorch's.
///
/// The results are libtorch's up to rounding, and so is what autograd gives of them in any use:
/// tied weights, hooks, torch::autograd::grad, second derivatives. Batch normalisations (whose two
/// gradients have a number for each channel, and come out of the pass that makes the input's) and
/// whatever else is not in this list (convolutions in other dtypes, sparse or padded-by-frequency
/// embeddings, computed weights, forward-mode derivatives, evaluation under NoGradGuard) are
/// libtorch's own, to the bit. Under autocasting libtorch rounds the operands, and products and
/// attention are made of these; a weight in fp32 gets its gradient unrounded.
///
/// Dropout is libtorch's until begin() says whose rows a forward pass has. A Trainer does all of
/// this for its model by itself (model.accelerate), the forward pass without a graph of a
/// recomputation included; evaluation is libtorch's.
class Accelerated {
 public:
  /// Takes a model's parameters, later ones are not seen. Throws a usage Error if this process
  /// has an out-of-tree device whose autocasting has the dispatch key that this uses.
  explicit Accelerated(const NamedParameters& parameters, const AccelerateOptions& options = {});
  ~Accelerated();
  Accelerated(const Accelerated&) = delete;
  Accelerated& operator=(const Accelerated&) = delete;

  /// The next forward pass has these samples, in order, and no other use of their ids in this
  /// window is to have the same masks. From then on dropout (at::dropout, at::feature_dropout, both
  /// in place too, attention's) keeps what Philox4x32-10 says, keyed by (seed, window, sample id,
  /// place among the pass's dropouts, position within the sample): the same however the batch is
  /// split, when it is replayed, and in the second run of accrue::checkpoint. The samples are x's
  /// first dimension, or the second of three or more, or equal shares of the first (heads,
  /// flattened positions); if none fits, the mask is libtorch's. So it is of alpha dropout.
  /// Sizes alone tell: sequences first of as many positions as there are samples, and a first
  /// dimension that is a multiple of them without being theirs (a table of positions), have a mask
  /// that is sound and depends on the split.
  void begin(std::vector<std::int64_t> sample_ids, std::int64_t window = 0);

  const AcceleratedCalls& calls() const;

 private:
  std::unique_ptr<kernels::AcceleratedScope> scope_;
};

/// Accelerates a torch::nn module, its holder, a TorchScript module or another model with
/// named_parameters() or parameters(). TorchScript's executor is to run the module as it is written
/// (torch::jit::GraphOptimizerEnabledGuard with false): what it differentiates itself is not seen.
template <class Model>
requires detail::HasNamedParameters<Model> || detail::HasParameters<Model>
[[nodiscard]] Accelerated accelerate(const Model& model, const AccelerateOptions& options = {}) {
  return Accelerated(detail::named_parameters_of(model), options);
}

}  // namespace accrue
