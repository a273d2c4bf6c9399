#include "accrue/kernels/convolution.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "accrue/core/error.h"
#include "accrue/kernels/kernel_choice.h"
#include "accrue/kernels/recompute.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/convolution/onednn_convolution.h"
#include "kernels/first_order.h"
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
  if (operands == at::kBFloat16 || (operands == at::kHalf && by_aten(x))) return;
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

/// During its lifetime, a GPU's convolutions of fp32 may use TF32, which represents bf16 and fp16
/// exactly: with operands rounded to these it loses nothing.
class Tf32Convolutions {
 public:
  Tf32Convolutions() { set(at::Float32Precision::TF32); }
  ~Tf32Convolutions() { set(before_); }
  Tf32Convolutions(const Tf32Convolutions&) = delete;
  Tf32Convolutions& operator=(const Tf32Convolutions&) = delete;

 private:
  static void set(at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV,
                                            precision);
  }

  at::Float32Precision before_ =
      at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV);
};

/// ATen's products of rounded operands: on devices, and for shapes and processors that oneDNN does
/// not support.
at::Tensor convolve_widened(const at::Tensor& x, const at::Tensor& weight,
                            const ConvolutionSteps& steps) {
  const Tf32Convolutions exact_in_tf32;
  return at::conv2d(x.to(at::kFloat), weight.to(at::kFloat), {}, steps.stride, steps.padding)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

/// Computes the gradient for a one-pixel kernel without padding as a matrix product: libtorch
/// 2.13's own operator writes beyond its memory on CPUs without AVX-512, for images in
/// channels-last layout.
at::Tensor pixel_kernel_gradient(const at::Tensor& grad, const at::Tensor& x,
                                 const at::Tensor& weight, std::int64_t stride) {
  const at::Tensor read = x.slice(2, 0, std::nullopt, stride).slice(3, 0, std::nullopt, stride);
  const auto by_channel = [](const at::Tensor& image) {
    return image.to(at::kFloat).transpose(0, 1).flatten(1);
  };
  return by_channel(grad).mm(by_channel(read).t()).view(weight.sizes());
}

at::Tensor gradient_widened(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                            const ConvolutionSteps& steps, bool of_weight) {
  const bool is_pixel = weight.size(2) == 1 && weight.size(3) == 1 && steps.padding == 0;
  if (of_weight && is_pixel && x.is_cpu())
    return pixel_kernel_gradient(grad, x, weight, steps.stride);
  const Tf32Convolutions exact_in_tf32;
  const auto [of_x, of_its_weight, of_bias] = at::convolution_backward(
      grad.to(at::kFloat), x.to(at::kFloat), weight.to(at::kFloat), /*bias_sizes=*/std::nullopt,
      {steps.stride, steps.stride}, {steps.padding, steps.padding}, /*dilation=*/{1, 1},
      /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
      std::array<bool, 3>{!of_weight, of_weight, false});
  return of_weight ? of_its_weight : of_x;
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, const RoundedConvolution& of) {
  const at::Tensor image = rounded_image(x, of.operands);
  const at::Tensor kernel = rounded_weight(weight, of.operands);
  const onednn::Convolution sizes = sizes_of(x, weight, of.steps);
  RECORD_FUNCTION("accrue::rounded_convolution", span_of({x, weight}, flops_of(sizes)));
  if (by_aten(x)) return convolve_widened(image, kernel, of.steps);
  const at::Tensor result = image_like(x, result_sizes(sizes));
  if (onednn::convolve(sizes, image.const_data_ptr(), kernel.const_data_ptr(),
                       result.mutable_data_ptr<float>()))
    return result;
  return convolve_widened(image, kernel, of.steps);
}

at::Tensor image_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                          const RoundedConvolution& of) {
  const at::Tensor kernel = rounded_weight(weight, of.operands);
  const onednn::Convolution sizes = sizes_of(x, weight, of.steps);
  RECORD_FUNCTION("accrue::rounded_convolution", span_of({grad, weight, x}, flops_of(sizes)));
  // ATen reads only the sizes of x here.
  if (by_aten(x)) return gradient_widened(grad, x, kernel, of.steps, false);
  const at::Tensor result = image_like(x, x.sizes());
  if (onednn::convolution_data_gradient(sizes, grad.const_data_ptr(), kernel.const_data_ptr(),
                                        result.mutable_data_ptr<float>()))
    return result;
  return gradient_widened(grad, x, kernel, of.steps, false);
}

at::Tensor kernel_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                           const RoundedConvolution& of) {
  const at::Tensor image = rounded_image(x, of.operands);
  const onednn::Convolution sizes = sizes_of(x, weight, of.steps);
  RECORD_FUNCTION("accrue::rounded_convolution", span_of({grad, x, weight}, flops_of(sizes)));
  // ATen reads only the sizes of the weight here.
  if (by_aten(x)) return gradient_widened(grad, image, weight.detach(), of.steps, true);
  const at::Tensor result = at::empty(weight.sizes(), weight.options());
  if (onednn::convolution_weight_gradient(sizes, image.const_data_ptr(), grad.const_data_ptr(),
                                          result.mutable_data_ptr<float>()))
    return result;
  return gradient_widened(grad, image, weight.detach(), of.steps, true);
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
    if (context->needs_input_grad(0)) result[0] = image_gradient(grad, saved[0], saved[1], of);
    if (context->needs_input_grad(1)) result[1] = kernel_gradient(grad, saved[0], saved[1], of);
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

at::Tensor rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                               const ConvolutionSteps& steps, at::ScalarType operands) {
  return convolve(x, weight, {steps, operands}, true);
}

at::Tensor unread_rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                                      const ConvolutionSteps& steps, at::ScalarType operands) {
  return convolve(x, weight, {steps, operands}, false);
}

}  // namespace accrue::kernels
