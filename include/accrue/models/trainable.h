#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/core/forward_context.h"
#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"
#include "accrue/models/batch_norm.h"

namespace accrue::models {

/// What passes from one segment to the next: one tensor for most models; in a residual network cut
/// inside a block also the skip connection.
using Activations = std::vector<at::Tensor>;

/// A batch normalisation at the entrance of a segment: input `activation` passes through it before
/// the segment's own function sees it.
struct BatchNormSite {
  std::size_t activation = 0;
  BatchNorm layer;
};

/// One link of the chain: a pure function from the previous link's output to the next one's input.
struct Segment {
  std::string name;
  /// `input` is empty for the first segment, which reads the micro-batch.
  std::function<Activations(const Activations& input, const batch::MicroBatch& micro,
                            const ForwardContext& context)>
      forward;
  /// Models are cut at their batch normalisations, so that a whole window can be brought there
  /// before its statistics are taken.
  std::vector<BatchNormSite> batch_norms = {};
  /// A block begins here, and reaches up to the next one: what full recomputation runs again as a
  /// whole, with only its input kept. The first segment begins one in any case.
  bool begins_block = false;
  /// Cheap to run if its result is not read: selective recomputation runs it again.
  bool cheap_graph = false;
};

/// The measure that is the share of the weight which is predicted right.
inline constexpr std::string_view accuracy_measure = "accuracy";

/// A loss on the last segment's output.
struct LossHead {
  std::string name;
  /// The sum as it is, not scaled. Whoever differentiates it passes `gradient_scale` as the sum's
  /// upstream gradient, so that a kernel that makes gradients ahead of backward
  /// (kernels::linear_cross_entropy) makes them times that; autograd does it for all others, and
  /// they may ignore it.
  std::function<Loss(const Activations& output, const batch::MicroBatch& micro,
                     const ForwardContext& context, double gradient_scale)>
      forward;
  /// The weight that `forward` will report, from the labels alone: what several losses with
  /// different denominators need before the first backward. May be left out by a single loss.
  std::function<double(const batch::MicroBatch& micro)> weight = {};
  /// How much this loss's mean counts in the total.
  double coefficient = 1;
  /// How much of the weight is predicted right; left out if that is no question.
  std::function<double(const Activations& output, const batch::MicroBatch& micro)> correct = {};
  /// Names of what `forward` tells beside the sum (Loss::measures), whose means are reported.
  std::vector<std::string> measures = {};
};

/// A layer inside a module that cannot be cut, so that accrue's promises do not cover it.
struct ForeignLayer {
  enum class Kind {
    batch_norm,  ///< normalises by the micro-batch
    dropout,     ///< draws masks that depend on the split, unless it is keyed
  };
  Kind kind = Kind::batch_norm;
  std::string name;
  std::string reason;  ///< why it cannot be reached
  /// Says of a dropout whether its masks are keyed by sample where accrue does the module's
  /// operations (Model::accelerate), if its input has the samples where kernels/accelerate.h looks
  /// for them.
  bool is_keyed_when_accelerated = false;
};

/// A model as a chain of segments that whoever trains it runs forward and backward itself: the
/// one mechanism behind recomputation, pipelines and the overlap of reductions (docs/design.md,
/// idea 5).
class Trainable {
 public:
  virtual ~Trainable() = default;
  /// Parameters in registration order, tied ones once.
  virtual NamedParameters parameters() const = 0;
  /// Names of parameters that a forward pass uses more than once (tied ones), and whose gradient so
  /// comes in parts.
  virtual std::vector<std::string> shared_parameters() const { return {}; }
  /// State that training moves without a gradient (running statistics); saved and restored with the
  /// parameters.
  virtual NamedParameters buffers() const { return {}; }
  /// Segments and losses refer to the model: they are valid while it lives.
  virtual std::vector<Segment> segments() = 0;
  virtual std::vector<LossHead> losses() = 0;
  virtual std::vector<ForeignLayer> foreign_layers() const { return {}; }
  /// Nothing, or where a device can record a training pass and repeat it with other ids and labels:
  /// what such a pass reads besides parameters, made anew if they have changed (copies of
  /// weights, kernels::PreparedWeight), which a recording then leaves out. Passes over
  /// micro-batches of one shape, a sample in each row, have to run the same operations, of which
  /// the host reads nothing; ids and labels are asked for nothing but to lie in a range; and there
  /// is one loss, with a weight.
  virtual std::optional<std::vector<at::Tensor>> prepare_recorded_pass() { return std::nullopt; }
};

/// Runs one segment, its batch normalisations by the micro-batch's own statistics in training and
/// by the running ones else. The running statistics move, except in a rerun.
Activations run_segment(const Segment& segment, const Activations& input,
                        const batch::MicroBatch& micro, const ForwardContext& context);
/// Runs all segments; differentiable, as one graph.
Activations run_segments(Trainable& model, const batch::MicroBatch& micro,
                         const ForwardContext& context);

/// What the losses of a micro-batch come to, in order of losses().
struct Evaluated {
  std::vector<Loss> losses;
  /// Weight predicted right, by the first loss that can tell; else its accuracy_measure.
  std::optional<double> correct;
};
/// Forward through all segments and losses, without a gradient; of an empty micro-batch all is 0.
Evaluated evaluate_losses(Trainable& model, const batch::MicroBatch& micro,
                          const ForwardContext& context);
/// Evaluates as one loss. Several losses are added; throws a usage Error if their weights
/// differ, because one mean cannot stand for two denominators.
Loss evaluate(Trainable& model, const batch::MicroBatch& micro, const ForwardContext& context);

/// Elements of all parameters, tied ones once.
std::int64_t parameter_count(const Trainable& model);

}  // namespace accrue::models
