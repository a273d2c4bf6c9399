#include "models/layers/resnet_layers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <utility>

#include "accrue/core/memory_tag.h"
#include "accrue/kernels/convolution.h"
#include "accrue/kernels/recompute.h"
#include "models/layers/compute_dtypes.h"

namespace accrue::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// conv2d without computing its result: the backward pass is libtorch's own.
struct UnreadConvolution : torch::autograd::Function<UnreadConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            std::int64_t stride, std::int64_t padding) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    const auto pixels = [&](std::int64_t side) {
      return (x.size(side) + 2 * padding - weight.size(side)) / stride + 1;
    };
    return kernels::unread_result({x.size(0), weight.size(0), pixels(2), pixels(3)}, x.options());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t stride = context->saved_data["stride"].toInt();
    const std::int64_t padding = context->saved_data["padding"].toInt();
    const std::array<bool, 3> wanted{context->needs_input_grad(0), context->needs_input_grad(1),
                                     false};
    const auto [x, weight, bias] = at::convolution_backward(
        grads[0], saved[0], saved[1], /*bias_sizes=*/std::nullopt, {stride, stride},
        {padding, padding}, /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0},
        /*groups=*/1, wanted);
    return {x, weight, {}, {}};
  }
};

/// Whether a block needs a projection: if the channels or the pixels change.
bool needs_projection(const BlockShape& shape) {
  return shape.in != shape.out || shape.stride != 1;
}

/// The kernel's side and the channels of each of a block's convolutions.
struct ConvolutionShape {
  std::int64_t kernel, out;
};

std::vector<ConvolutionShape> convolutions_of(const BlockShape& shape) {
  if (shape.convolutions == 3) return {{1, shape.width}, {3, shape.width}, {1, shape.out}};
  return {{3, shape.width}, {3, shape.out}};
}

}  // namespace

at::Tensor Convolution::operator()(const at::Tensor& x) const {
  if (is_mixed(compute))
    return kernels::rounded_convolution(x, weight, {stride, padding()}, activation_dtype(compute));
  return at::conv2d(x, weight, {}, stride, padding());
}

at::Tensor Convolution::unread(const at::Tensor& x) const {
  if (is_mixed(compute))
    return kernels::unread_rounded_convolution(x, weight, {stride, padding()},
                                               activation_dtype(compute));
  return UnreadConvolution::apply(x, weight, stride, padding());
}

at::Tensor NormLayer::operator()(const at::Tensor& x) const {
  return at::group_norm(x, groups_of(norm, x.size(1)), parts.weight, parts.bias, parts.eps);
}

Convolution LayerBuilder::convolution(const std::string& name, std::int64_t in, std::int64_t out,
                                      std::int64_t kernel, std::int64_t stride) {
  const double fan_out = static_cast<double>(kernel * kernel * out);
  return {.weight =
              builder_.normal(name + ".weight", {out, in, kernel, kernel}, std::sqrt(2 / fan_out)),
          .stride = stride,
          .compute = compute_};
}

at::Tensor LayerBuilder::buffer(const std::string& name, at::Tensor value) {
  buffers_.push_back({name, value});
  return value;
}

NormLayer LayerBuilder::norm(const std::string& name, std::int64_t channels) {
  NormLayer layer{norm_, {}};
  layer.parts.name = name;
  layer.parts.weight = builder_.constant(name + ".weight", {channels}, 1);
  layer.parts.bias = builder_.constant(name + ".bias", {channels}, 0);
  if (norm_ != Norm::batch) return layer;
  const MemoryTagScope tag(MemoryTag::parameters);
  const auto options = at::TensorOptions().dtype(master_dtype(compute_));
  layer.parts.running_mean = buffer(name + ".running_mean", at::zeros({channels}, options));
  layer.parts.running_var = buffer(name + ".running_var", at::ones({channels}, options));
  layer.parts.batches_tracked =
      buffer(name + ".num_batches_tracked", at::zeros({}, options.dtype(at::kLong)));
  return layer;
}

ResidualBlock LayerBuilder::block(const std::string& name, const BlockShape& shape) {
  ResidualBlock made;
  made.name = name;
  std::int64_t in = shape.in, stride = shape.stride;
  for (const ConvolutionShape& next : convolutions_of(shape)) {
    const std::string number = std::to_string(made.convolutions.size() + 1);
    const std::int64_t its_stride = next.kernel == 3 ? std::exchange(stride, 1) : 1;
    made.convolutions.push_back(
        convolution(name + ".conv" + number, in, next.out, next.kernel, its_stride));
    made.norms.push_back(norm(name + ".bn" + number, next.out));
    in = next.out;
  }
  if (needs_projection(shape)) {
    made.projection = convolution(name + ".downsample.0", shape.in, shape.out, 1, shape.stride);
    made.projection_norm = norm(name + ".downsample.1", shape.out);
  }
  return made;
}

}  // namespace accrue::models
