#include "kernels/generic/generic_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <array>
#include <optional>

namespace accrue::kernels::generic {
namespace {

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

}  // namespace

at::Tensor convolve(const at::Tensor& image, const at::Tensor& weight,
                    const ConvolutionSteps& steps) {
  const Tf32Convolutions exact_in_tf32;
  return at::conv2d(image.to(at::kFloat), weight.to(at::kFloat), {}, steps.stride, steps.padding)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor image_gradient(const at::Tensor& grad, const at::Tensor& like, const at::Tensor& weight,
                          const ConvolutionSteps& steps) {
  return gradient_widened(grad, like, weight, steps, false);
}

at::Tensor kernel_gradient(const at::Tensor& grad, const at::Tensor& image, const at::Tensor& like,
                           const ConvolutionSteps& steps) {
  return gradient_widened(grad, image, like, steps, true);
}

}  // namespace accrue::kernels::generic
