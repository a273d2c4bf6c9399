#include "models/layers/resnet_layers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "accrue/core/memory_tag.h"
#include "accrue/kernels/recompute.h"

namespace accrue::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// conv2d for its graph alone: the backward pass is libtorch's own.
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

/// Whether a block needs a projection: where the channels or the pixels change.
bool needs_projection(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return in != out || stride != 1;
}

}  // namespace

at::Tensor Convolution::operator()(const at::Tensor& x) const {
  return at::conv2d(x, weight, {}, stride, padding());
}

at::Tensor Convolution::unread(const at::Tensor& x) const {
  return UnreadConvolution::apply(x, weight, stride, padding());
}

at::Tensor NormLayer::operator()(const at::Tensor& x) const {
  return at::group_norm(x, groups_of(norm, x.size(1)), parts.weight, parts.bias, parts.eps);
}

Convolution LayerBuilder::convolution(const std::string& name, std::int64_t in, std::int64_t out,
                                      std::int64_t kernel, std::int64_t stride) {
  const double fan_out = static_cast<double>(kernel * kernel * out);
  return {builder_.normal(name + ".weight", {out, in, kernel, kernel}, std::sqrt(2 / fan_out)),
          stride};
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
  const auto options = at::TensorOptions().dtype(dtype_);
  layer.parts.running_mean = buffer(name + ".running_mean", at::zeros({channels}, options));
  layer.parts.running_var = buffer(name + ".running_var", at::ones({channels}, options));
  layer.parts.batches_tracked =
      buffer(name + ".num_batches_tracked", at::zeros({}, options.dtype(at::kLong)));
  return layer;
}

BasicBlock LayerBuilder::block(const std::string& name, std::int64_t in, std::int64_t out,
                               std::int64_t stride) {
  BasicBlock made;
  made.name = name;
  made.conv1 = convolution(name + ".conv1", in, out, 3, stride);
  made.bn1 = norm(name + ".bn1", out);
  made.conv2 = convolution(name + ".conv2", out, out, 3, 1);
  made.bn2 = norm(name + ".bn2", out);
  if (needs_projection(in, out, stride)) {
    made.projection = convolution(name + ".downsample.0", in, out, 1, stride);
    made.projection_norm = norm(name + ".downsample.1", out);
  }
  return made;
}

}  // namespace accrue::models
