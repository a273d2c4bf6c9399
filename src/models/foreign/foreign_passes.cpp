#include "models/foreign/foreign_passes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/aten_element.h"
#include "models/foreign/autocasting.h"
#include "models/layers/compute_dtypes.h"

namespace accrue::models {
namespace {

using kernels::AcceleratedModel;
using kernels::AcceleratedScope;
using kernels::InterceptedOperations;

/// The first number of the dropouts of part `index`. A Sequential's own Dropout modules have the
/// numbers from index << 32 on (torch_module.cpp).
std::int64_t first_site(std::int64_t index) {
  constexpr std::int64_t behind_those_of_modules = std::int64_t{1} << 31;
  return (index << 32) + behind_those_of_modules;
}

constexpr std::int64_t losses_begin = std::int64_t{1} << 24;  ///< behind all segments

/// Accelerates a part of a training pass while it exists; does nothing without a model.
class PassPart {
 public:
  PassPart(const std::shared_ptr<AcceleratedModel>& model, const ForwardContext& context,
           std::int64_t index) {
    if (!model || !context.training) return;
    scope_.emplace(kernels::AcceleratedPass{.model = model,
                                            .caught = context.operations == nullptr
                                                          ? InterceptedOperations::always
                                                          : InterceptedOperations::dropouts,
                                            .context = context,
                                            .next_site = first_site(index)});
  }

 private:
  std::optional<AcceleratedScope> scope_;
};

Activations widened(Activations activations) {
  for (at::Tensor& tensor : activations)
    if (tensor.defined() && kernels::is_sixteen_bit(tensor.scalar_type()))
      tensor = tensor.to(at::kFloat);
  return activations;
}

/// The device of a segment: it reads the previous segment's output, or the micro-batch.
c10::DeviceType device_of(const Activations& input, const batch::MicroBatch& micro) {
  for (const at::Tensor& tensor : input)
    if (tensor.defined()) return tensor.device().type();
  for (const auto& [name, tensor] : micro.columns) return tensor.device().type();
  return micro.inputs.defined() ? micro.inputs.device().type() : at::kCPU;
}

}  // namespace

void ForeignPasses::accelerate(bool wanted, const NamedParameters& parameters) {
  if (!wanted) model_ = nullptr;
  if (wanted && !model_) model_ = std::make_shared<AcceleratedModel>(parameters);
}

std::vector<Segment> ForeignPasses::of(std::vector<Segment> segments) const {
  if (!model_ && !is_mixed(compute_)) return segments;
  std::int64_t index = 0;
  for (Segment& segment : segments)
    segment.forward = [model = model_, compute = compute_, forward = std::move(segment.forward),
                       index = index++](const Activations& input, const batch::MicroBatch& micro,
                                        const ForwardContext& context) {
      std::optional<Autocasting> casting;
      if (is_mixed(compute)) casting.emplace(device_of(input, micro), activation_dtype(compute));
      const PassPart part(model, context, index);
      Activations output = forward(input, micro, context);
      casting.reset();
      return is_mixed(compute) ? widened(std::move(output)) : output;
    };
  return segments;
}

std::vector<LossHead> ForeignPasses::of(std::vector<LossHead> losses) const {
  if (!model_) return losses;
  std::int64_t index = losses_begin;
  for (LossHead& loss : losses)
    loss.forward = [model = model_, forward = std::move(loss.forward), index = index++](
                       const Activations& output, const batch::MicroBatch& micro,
                       const ForwardContext& context, double gradient_scale) {
      const PassPart part(model, context, index);
      return forward(output, micro, context, gradient_scale);
    };
  return losses;
}

std::vector<ForeignLayer> ForeignPasses::beyond_reach(std::vector<ForeignLayer> layers) const {
  if (model_ && model_->unkeyed_dropouts == 0)
    std::erase_if(layers, [](const ForeignLayer& layer) {
      return layer.kind == ForeignLayer::Kind::dropout && layer.is_keyed_when_accelerated;
    });
  return layers;
}

AcceleratedCalls ForeignPasses::calls() const {
  return model_ ? model_->calls : AcceleratedCalls{};
}

}  // namespace accrue::models
