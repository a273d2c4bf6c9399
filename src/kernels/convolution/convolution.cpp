#include "accrue/kernels/convolution.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "accrue/core/error.h"
#include "accrue/kernels/recompute.h"
#include "core/kernel_span.h"
#include "kernels/convolution/onednn_convolution.h"
#include "kernels/first_order.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* convolution_in_bf16 = "bf16 convolution";

void expect_images(const at::Tensor& x, const at::Tensor& weight) {
  if (x.dim() == 4 && weight.dim() == 4 && x.size(1) == weight.size(1) &&
      weight.size(2) == weight.size(3) && x.scalar_type() == at::kFloat &&
      weight.scalar_type() == at::kFloat)
    return;
  throw usage_error(convolution_in_bf16, "fp32 x [B, C, H, W] and weight [O, C, k, k]",
                    text_of(x) + " and " + text_of(weight), "tensors of these shapes");
}

std::int64_t pixels_after(std::int64_t pixels, std::int64_t kernel, const ConvolutionSteps& steps) {
  return (pixels + 2 * steps.padding - kernel) / steps.stride + 1;
}

onednn::Convolution sizes_of(const at::Tensor& x, const at::Tensor& weight,
                             const ConvolutionSteps& steps) {
  const std::int64_t kernel = weight.size(2);
  return {.batch = x.size(0),
          .in = x.size(1),
          .height = x.size(2),
          .width = x.size(3),
          .out = weight.size(0),
          .out_height = pixels_after(x.size(2), kernel, steps),
          .out_width = pixels_after(x.size(3), kernel, steps),
          .kernel = kernel,
          .stride = steps.stride,
          .padding = steps.padding};
}

std::vector<std::int64_t> result_sizes(const onednn::Convolution& sizes) {
  return {sizes.batch, sizes.out, sizes.out_height, sizes.out_width};
}

std::int64_t flops_of(const onednn::Convolution& s) {
  return 2 * s.batch * s.out * s.out_height * s.out_width * s.in * s.kernel * s.kernel;
}

at::Tensor rounded_image(const at::Tensor& x) {
  return x.to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor rounded_weight(const at::Tensor& weight) {
  return weight.detach().to(at::kBFloat16).contiguous();
}

at::Tensor image_like(const at::Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options().dtype(at::kFloat), at::MemoryFormat::ChannelsLast);
}

/// ATen's products of what was rounded, for shapes and processors that oneDNN has nothing for.
at::Tensor convolve_widened(const at::Tensor& x, const at::Tensor& weight,
                            const ConvolutionSteps& steps) {
  return at::conv2d(x.to(at::kFloat), weight.to(at::kFloat), {}, steps.stride, steps.padding)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor gradient_widened(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                            const ConvolutionSteps& steps, bool of_weight) {
  const auto [of_x, of_its_weight, of_bias] = at::convolution_backward(
      grad.to(at::kFloat), x.to(at::kFloat), weight.to(at::kFloat), /*bias_sizes=*/std::nullopt,
      {steps.stride, steps.stride}, {steps.padding, steps.padding}, /*dilation=*/{1, 1},
      /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
      std::array<bool, 3>{!of_weight, of_weight, false});
  return of_weight ? of_its_weight : of_x;
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, const ConvolutionSteps& steps) {
  const onednn::Convolution sizes = sizes_of(x, weight, steps);
  const at::Tensor image = rounded_image(x), kernel = rounded_weight(weight);
  const at::Tensor result = image_like(x, result_sizes(sizes));
  RECORD_FUNCTION("accrue::bf16_convolution", span_of({x, weight, result}, flops_of(sizes)));
  if (onednn::convolve(sizes, image.const_data_ptr(), kernel.const_data_ptr(),
                       result.mutable_data_ptr<float>()))
    return result;
  return convolve_widened(image, kernel, steps);
}

at::Tensor image_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                          const ConvolutionSteps& steps) {
  const onednn::Convolution sizes = sizes_of(x, weight, steps);
  const at::Tensor kernel = rounded_weight(weight), result = image_like(x, x.sizes());
  RECORD_FUNCTION("accrue::bf16_convolution", span_of({grad, weight, result}, flops_of(sizes)));
  if (onednn::convolution_data_gradient(sizes, grad.const_data_ptr(), kernel.const_data_ptr(),
                                        result.mutable_data_ptr<float>()))
    return result;
  return gradient_widened(grad, rounded_image(x), kernel, steps, false);
}

at::Tensor kernel_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                           const ConvolutionSteps& steps) {
  const onednn::Convolution sizes = sizes_of(x, weight, steps);
  const at::Tensor image = rounded_image(x), result = at::empty(weight.sizes(), weight.options());
  RECORD_FUNCTION("accrue::bf16_convolution", span_of({grad, x, result}, flops_of(sizes)));
  if (onednn::convolution_weight_gradient(sizes, image.const_data_ptr(), grad.const_data_ptr(),
                                          result.mutable_data_ptr<float>()))
    return result;
  return gradient_widened(grad, image, rounded_weight(weight), steps, true);
}

class Bf16Convolution : public torch::autograd::Function<Bf16Convolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const ConvolutionSteps& steps, bool is_read) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = steps.stride;
    context->saved_data["padding"] = steps.padding;
    if (is_read) return convolved(x, weight, steps);
    return unread_result(result_sizes(sizes_of(x, weight, steps)), x.options());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order(convolution_in_bf16);
    const variable_list saved = context->get_saved_variables();
    const ConvolutionSteps steps{.stride = context->saved_data["stride"].toInt(),
                                 .padding = context->saved_data["padding"].toInt()};
    const at::Tensor grad = rounded_image(grads[0]);
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = image_gradient(grad, saved[0], saved[1], steps);
    if (context->needs_input_grad(1)) result[1] = kernel_gradient(grad, saved[0], saved[1], steps);
    return result;
  }
};

}  // namespace

at::Tensor bf16_convolution(const at::Tensor& x, const at::Tensor& weight,
                            const ConvolutionSteps& steps) {
  expect_images(x, weight);
  return Bf16Convolution::apply(x, weight, steps, true);
}

at::Tensor unread_bf16_convolution(const at::Tensor& x, const at::Tensor& weight,
                                   const ConvolutionSteps& steps) {
  expect_images(x, weight);
  return Bf16Convolution::apply(x, weight, steps, false);
}

}  // namespace accrue::kernels
