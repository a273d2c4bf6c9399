#include "kernels/foreign/foreign_convolution.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "accrue/kernels/grad_slot.h"
#include "kernels/convolution/onednn_weight_gradient.h"
#include "kernels/foreign/gradients_with_graph.h"
#include "kernels/optional_tensor.h"
#include "kernels/saved_value.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor libtorch_convolution(const variable_list& inputs, const ConvolutionOptions& of) {
  return at::convolution(inputs[0], inputs[1], optional_of(inputs[2]), of.stride, of.padding,
                         of.dilation, of.transposed, of.output_padding, of.groups);
}

bool lies_by_pixels(const at::Tensor& x) {
  const auto format = x.suggest_memory_format();
  return format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d;
}

at::Tensor dense_as(const at::Tensor& x, const at::Tensor& like) {
  return x.contiguous(lies_by_pixels(like) ? like.suggest_memory_format()
                                           : at::MemoryFormat::Contiguous);
}

/// The weight gradient computed by oneDNN. A transposed convolution maps the output of a plain one
/// to its input: there the two are exchanged.
struct WeightGradient {
  WeightGradient(const at::Tensor& weight, const at::Tensor& x, const at::Tensor& grad,
                 const ConvolutionOptions& of)
      : input(dense_as(of.transposed ? grad : x, x)),
        upstream(dense_as(of.transposed ? x : grad, x)),
        sizes{.x = input.sizes().vec(),
              .weight = weight.sizes().vec(),
              .grad = upstream.sizes().vec(),
              .stride = of.stride,
              .padding = of.padding,
              .dilation = of.dilation,
              .groups = of.groups,
              .channels_last = lies_by_pixels(x)} {}

  void put_into(GradSlot& slot) const {
    std::vector<at::Tensor> room;
    Contribution to = slot.contribute();
    onednn::weight_gradient(
        sizes, input.const_data_ptr<float>(), upstream.const_data_ptr<float>(),
        to.into.mutable_data_ptr<float>(), to.add, [&](std::size_t bytes) {
          room.push_back(at::empty({static_cast<std::int64_t>(bytes)}, at::kByte));
          return room.back().mutable_data_ptr();
        });
    slot.done();
  }

  at::Tensor input, upstream;
  onednn::WeightGradient sizes;
};

/// Writes the weight's gradient to its slot; false if it has none, or oneDNN is not fast here.
bool is_put_into_slot(const at::Tensor& weight, const at::Tensor& x, const at::Tensor& grad,
                      const ConvolutionOptions& of) {
  GradSlot* slot = open_slot_of(weight);
  if (slot == nullptr) return false;
  const WeightGradient gradient(weight, x, grad, of);
  const bool is_made = onednn::has_weight_gradient(gradient.sizes);
  if (is_made) gradient.put_into(*slot);
  return is_made;
}

/// The sum over images and pixels: a bias's gradient.
at::Tensor channel_sums(const at::Tensor& grad) {
  std::vector<std::int64_t> others{0};
  for (std::int64_t dimension = 2; dimension < grad.dim(); ++dimension) others.push_back(dimension);
  return grad.sum(others);
}

struct ForeignConvolution : torch::autograd::Function<ForeignConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const ConvolutionOptions& options) {
    const at::Tensor bias_tensor = bias.value_or(at::Tensor());
    context->save_for_backward({x, weight, bias_tensor});
    context->saved_data["options"] = to_saved(options);
    return libtorch_convolution({x, weight, bias_tensor}, options);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const auto& of = from_saved<ConvolutionOptions>(context->saved_data["options"]);
    if (at::GradMode::is_enabled()) {
      variable_list gradients = gradients_with_graph(
          saved, grads[0],
          [&](const variable_list& inputs) { return libtorch_convolution(inputs, of); });
      gradients.emplace_back();
      return gradients;
    }
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    std::array<bool, 3> wanted{context->needs_input_grad(0), context->needs_input_grad(1),
                               bias.defined() && context->needs_input_grad(2)};
    variable_list gradients(4);
    if (wanted[1] && is_put_into_slot(weight, x, grads[0], of)) {
      // libtorch computes a bias's gradient together with the weight's.
      if (wanted[2]) gradients[2] = channel_sums(grads[0]);
      wanted[1] = wanted[2] = false;
    }
    if (wanted == std::array{false, false, false}) return gradients;
    const auto made = at::convolution_backward(
        grads[0], x, weight,
        bias.defined() ? at::OptionalIntArrayRef(bias.sizes()) : at::OptionalIntArrayRef(),
        of.stride, of.padding, of.dilation, of.transposed, of.output_padding, of.groups, wanted);
    if (wanted[0]) gradients[0] = std::get<0>(made);
    if (wanted[1]) gradients[1] = std::get<1>(made);
    if (wanted[2]) gradients[2] = std::get<2>(made);
    return gradients;
  }
};

}  // namespace

at::Tensor foreign_convolution(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const ConvolutionOptions& options) {
  return ForeignConvolution::apply(x, weight, optional_of(bias), options);
}

}  // namespace accrue::kernels
