#include "accrue/kernels/convolution.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "accrue/core/error.h"
#include "accrue/kernels/recompute.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/convolution/onednn_convolution.h"
#include "kernels/cpu_passes.h"
#include "kernels/first_order.h"
#include "kernels/generic/generic_convolution.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* convolution_operation = "convolution of rounded operands";

/// The properties of a convolution besides its tensors.
struct RoundedConvolution {
  ConvolutionSteps steps;
  at::ScalarType operands;
};

void expect_operands(const at::Tensor& x, at::ScalarType operands) {
  if (backend_of(x).convolves(operands)) return;
  throw usage_error(convolution_operation, "operands in bf16, or in fp16 by ATen's operators",
                    c10::toString(operands), "at::kBFloat16");
}

void expect_images(const at::Tensor& x, const at::Tensor& weight) {
  if (x.dim() == 4 && weight.dim() == 4 && x.size(1) == weight.size(1) &&
      weight.size(2) == weight.size(3) && x.scalar_type() == at::kFloat &&
      weight.scalar_type() == at::kFloat)
    return;
  throw usage_error(convolution_operation, "fp32 x [B, C, H, W] and weight [O, C, k, k]",
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

at::Tensor rounded_image(const at::Tensor& x, at::ScalarType operands) {
  return x.to(operands).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor rounded_weight(const at::Tensor& weight, at::ScalarType operands) {
  return weight.detach().to(operands).contiguous();
}

at::Tensor image_like(const at::Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options().dtype(at::kFloat), at::MemoryFormat::ChannelsLast);
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, const RoundedConvolution& of) {
  const at::Tensor image = rounded_image(x, of.operands);
  const at::Tensor kernel = rounded_weight(weight, of.operands);
  const onednn::Convolution sizes = sizes_of(x, weight, of.steps);
  RECORD_FUNCTION("accrue::rounded_convolution", span_of({x, weight}, flops_of(sizes)));
  return backend_of(x).convolve(image, kernel, of.steps);
}

at::Tensor gradient_of_image(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                             const RoundedConvolution& of) {
  const at::Tensor kernel = rounded_weight(weight, of.operands);
  const onednn::Convolution sizes = sizes_of(x, weight, of.steps);
  RECORD_FUNCTION("accrue::rounded_convolution", span_of({grad, weight, x}, flops_of(sizes)));
  return backend_of(x).image_gradient(grad, x, kernel, of.steps);
}

at::Tensor gradient_of_kernel(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                              const RoundedConvolution& of) {
  const at::Tensor image = rounded_image(x, of.operands);
  const onednn::Convolution sizes = sizes_of(x, weight, of.steps);
  RECORD_FUNCTION("accrue::rounded_convolution", span_of({grad, x, weight}, flops_of(sizes)));
  return backend_of(x).kernel_gradient(grad, image, weight.detach(), of.steps);
}

class ConvolutionOfRounded : public torch::autograd::Function<ConvolutionOfRounded> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const RoundedConvolution& of, bool is_read) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = of.steps.stride;
    context->saved_data["padding"] = of.steps.padding;
    context->saved_data["operands"] = static_cast<std::int64_t>(of.operands);
    if (is_read) return convolved(x, weight, of);
    return unread_result(result_sizes(sizes_of(x, weight, of.steps)), x.options());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order(convolution_operation);
    const variable_list saved = context->get_saved_variables();
    const auto kept = [&](const char* name) { return context->saved_data[name].toInt(); };
    const RoundedConvolution of{.steps = {.stride = kept("stride"), .padding = kept("padding")},
                                .operands = static_cast<at::ScalarType>(kept("operands"))};
    const at::Tensor grad = rounded_image(grads[0], of.operands);
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = gradient_of_image(grad, saved[0], saved[1], of);
    if (context->needs_input_grad(1)) result[1] = gradient_of_kernel(grad, saved[0], saved[1], of);
    return result;
  }
};

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const RoundedConvolution& of,
                    bool is_read) {
  expect_images(x, weight);
  expect_operands(x, of.operands);
  return ConvolutionOfRounded::apply(x, weight, of, is_read);
}

}  // namespace

at::Tensor cpu::convolve(const at::Tensor& image, const at::Tensor& weight,
                         const ConvolutionSteps& steps) {
  const onednn::Convolution sizes = sizes_of(image, weight, steps);
  const at::Tensor result = image_like(image, result_sizes(sizes));
  if (onednn::convolve(sizes, image.const_data_ptr(), weight.const_data_ptr(),
                       result.mutable_data_ptr<float>()))
    return result;
  return generic::convolve(image, weight, steps);
}

at::Tensor cpu::image_gradient(const at::Tensor& grad, const at::Tensor& like,
                               const at::Tensor& weight, const ConvolutionSteps& steps) {
  const at::Tensor result = image_like(like, like.sizes());
  if (onednn::convolution_data_gradient(sizes_of(like, weight, steps), grad.const_data_ptr(),
                                        weight.const_data_ptr(), result.mutable_data_ptr<float>()))
    return result;
  return generic::image_gradient(grad, like, weight, steps);
}

at::Tensor cpu::kernel_gradient(const at::Tensor& grad, const at::Tensor& image,
                                const at::Tensor& like, const ConvolutionSteps& steps) {
  const at::Tensor result = at::empty(like.sizes(), like.options());
  if (onednn::convolution_weight_gradient(sizes_of(image, like, steps), image.const_data_ptr(),
                                          grad.const_data_ptr(), result.mutable_data_ptr<float>()))
    return result;
  return generic::kernel_gradient(grad, image, like, steps);
}

at::Tensor rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                               const ConvolutionSteps& steps, at::ScalarType operands) {
  return convolve(x, weight, {steps, operands}, true);
}

at::Tensor unread_rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                                      const ConvolutionSteps& steps, at::ScalarType operands) {
  return convolve(x, weight, {steps, operands}, false);
}

}  // namespace accrue::kernels
