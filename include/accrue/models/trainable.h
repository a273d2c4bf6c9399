#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/core/forward_context.h"
#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"

namespace accrue::models {

/// One link of the chain: a pure function from the previous link's output to the next one's input.
struct Segment {
  std::string name;
  /// `input` is undefined for the first segment, which reads the micro-batch.
  std::function<at::Tensor(const at::Tensor& input, const batch::MicroBatch& micro,
                           const ForwardContext& context)>
      forward;
};

/// A loss on the last segment's output.
struct LossHead {
  std::string name;
  std::function<Loss(const at::Tensor& output, const batch::MicroBatch& micro,
                     const ForwardContext& context)>
      forward;
};

/// A model as a chain of segments that whoever trains it runs forward and backward itself: the
/// one mechanism behind recomputation, pipelines and the overlap of reductions (docs/design.md,
/// idea 5).
class Trainable {
 public:
  virtual ~Trainable() = default;
  /// In registration order, tied ones once.
  virtual NamedParameters parameters() const = 0;
  /// Segments and losses refer to the model: they are valid while it lives.
  virtual std::vector<Segment> segments() = 0;
  virtual std::vector<LossHead> losses() = 0;
};

/// Forward through all segments and losses, without a gradient. Several losses are added; a usage
/// Error where their weights differ, because one mean cannot stand for two denominators.
Loss evaluate(Trainable& model, const batch::MicroBatch& micro, const ForwardContext& context);

/// Elements of all parameters, tied ones once.
std::int64_t parameter_count(const Trainable& model);

}  // namespace accrue::models
