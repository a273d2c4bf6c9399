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

/// The data passed from one segment to the next: one tensor for most models; also the skip
/// connection in a residual network that is cut inside a block.
using Activations = std::vector<at::Tensor>;

/// A batch normalisation at the entrance of a segment: input `activation` passes through it before
/// the segment's function receives it.
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
  /// Models are cut at their batch normalisations, so that a whole window can be run up to there
  /// before its statistics are computed.
  std::vector<BatchNormSite> batch_norms = {};
  /// A block begins here and ends before the next one. Full recomputation runs a block again as a
  /// whole and keeps only its input. The first segment always begins one.
  bool begins_block = false;
  /// Cheap to run if its result is not read: selective recomputation runs it again.
  bool cheap_graph = false;
  /// Lists the large weights that `forward` reads, trained or frozen, in the form in which the next
  /// pass reads them; those of the last segment include the losses'. Empty: they are not known.
  /// Offloaded weights that are listed are read ahead, and others when they are touched.
  std::function<std::vector<at::Tensor>()> weights = {};
};

/// The name of the measure that is the fraction of the weight predicted correctly.
inline constexpr std::string_view accuracy_measure = "accuracy";

/// A loss on the last segment's output.
struct LossHead {
  std::string name;
  /// Returns the unscaled sum. The code that differentiates it passes `gradient_scale` as the sum's
  /// upstream gradient; a kernel that computes gradients before backward
  /// (kernels::linear_cross_entropy) multiplies them by it. All other losses may ignore it, since
  /// autograd scales their gradients.
  std::function<Loss(const Activations& output, const batch::MicroBatch& micro,
                     const ForwardContext& context, double gradient_scale)>
      forward;
  /// The weight that `forward` will report, from the labels alone: several losses with different
  /// denominators need it before the first backward. Optional for a single loss.
  std::function<double(const batch::MicroBatch& micro)> weight = {};
  /// The weight of this loss's mean in the total.
  double coefficient = 1;
  /// The weight predicted correctly; left out if the loss has no accuracy.
  std::function<double(const Activations& output, const batch::MicroBatch& micro)> correct = {};
  /// Names of the other measures of `forward` (Loss::measures), whose means are reported.
  std::vector<std::string> measures = {};
};

/// A layer inside a module that cannot be cut, so accrue's guarantees do not cover it.
struct ForeignLayer {
  enum class Kind {
    batch_norm,  ///< normalises by the micro-batch
    dropout,     ///< draws masks that depend on the split, unless it is keyed
  };
  Kind kind = Kind::batch_norm;
  std::string name;
  std::string reason;  ///< why it cannot be reached
  /// For dropout: whether its masks are keyed by sample when accrue runs the module's operations
  /// (Model::accelerate), if the samples are in a dimension of its input that kernels/accelerate.h
  /// supports.
  bool is_keyed_when_accelerated = false;
};

/// A model as a chain of segments that the training code runs forward and backward: the common
/// mechanism of recomputation, pipelines and the overlap of reductions (docs/design.md, idea
/// 5).
class Trainable {
 public:
  virtual ~Trainable() = default;
  /// Parameters in registration order, tied ones once.
  virtual NamedParameters parameters() const = 0;
  /// Names of parameters that a forward pass uses more than once (tied ones), so that their
  /// gradient comes in parts.
  virtual std::vector<std::string> shared_parameters() const { return {}; }
  /// State that training changes without a gradient (running statistics); saved and restored with
  /// the parameters.
  virtual NamedParameters buffers() const { return {}; }
  /// Segments and losses refer to the model: they are valid during its lifetime.
  virtual std::vector<Segment> segments() = 0;
  virtual std::vector<LossHead> losses() = 0;
  virtual std::vector<ForeignLayer> foreign_layers() const { return {}; }
  /// For devices that can record a training pass and repeat it with other ids and labels: returns
  /// the tensors besides parameters that such a pass reads (copies of weights,
  /// kernels::PreparedWeight), updated if the parameters changed; a recording then leaves the
  /// update out. Nothing if passes cannot be recorded. Requires that passes over micro-batches of
  /// one shape, with one sample per row, run the same operations, of which the host reads nothing;
  /// that ids and labels only have to lie in a range; and that there is one loss, with a weight.
  virtual std::optional<std::vector<at::Tensor>> prepare_recorded_pass() { return std::nullopt; }
};

/// Runs one segment, with its batch normalisations by the statistics of the micro-batch in training
/// and otherwise by the running ones. Updates the running statistics, except in a rerun.
Activations run_segment(const Segment& segment, const Activations& input,
                        const batch::MicroBatch& micro, const ForwardContext& context);
/// Runs all segments; differentiable, as one graph.
Activations run_segments(Trainable& model, const batch::MicroBatch& micro,
                         const ForwardContext& context);

/// The values of the losses of a micro-batch, in order of losses().
struct Evaluated {
  std::vector<Loss> losses;
  /// Weight predicted correctly, by the first loss that knows; else its accuracy_measure.
  std::optional<double> correct;
};
/// Runs the losses forward on the output of the last segment, without a gradient; all 0 for an
/// empty micro-batch, whose output is not read.
Evaluated evaluate_output(const std::vector<LossHead>& heads, const Activations& output,
                          const batch::MicroBatch& micro, const ForwardContext& context);
/// Runs all segments and losses forward, without a gradient.
Evaluated evaluate_losses(Trainable& model, const batch::MicroBatch& micro,
                          const ForwardContext& context);
/// Evaluates as one loss. Several losses are added; throws a usage Error if their weights differ,
/// because one mean cannot have two denominators.
Loss evaluate(Trainable& model, const batch::MicroBatch& micro, const ForwardContext& context);

/// The number of elements of all parameters, tied ones once.
std::int64_t parameter_count(const Trainable& model);

}  // namespace accrue::models
