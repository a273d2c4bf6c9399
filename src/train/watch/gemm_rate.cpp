#include "train/watch/gemm_rate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/clock.h"
#include "accrue/device/device.h"
#include "accrue/kernels/linear.h"
#include "kernels/gemm/gemm.h"

namespace accrue::train {
namespace {

at::ScalarType operand_dtype(models::Compute compute) {
  switch (compute) {
    case models::Compute::bf16:
      return at::kBFloat16;
    case models::Compute::fp16:
      return at::kHalf;
    case models::Compute::fp64:
      return at::kDouble;
    case models::Compute::fp32:
      break;
  }
  return at::kFloat;
}

/// Seconds of a run after a first one, which compiles the product and packs its operand; on a
/// device the mean of several, which the host submits ahead.
template <class Product>
double seconds_of(c10::Device device, const Product& product) {
  constexpr int device_runs = 10;
  const int runs = device.is_cpu() ? 1 : device_runs;
  product();
  device::synchronize(device);
  const Stopwatch watch;
  for (int i = 0; i < runs; ++i) product();
  device::synchronize(device);
  return watch.seconds() / runs;
}

/// The faster of the two ways in which the model's own products run: with a plain right operand, or
/// with a packed weight.
double seconds_of(const GemmShape& shape, const at::TensorOptions& options) {
  const at::NoGradGuard no_grad;
  const c10::Device device = options.device();
  // A GPU multiplies equal numbers with less power, and faster.
  const auto operand = [&](std::int64_t rows, std::int64_t columns) {
    const at::Tensor values = at::ones({rows, columns}, options);
    return device.is_cpu() ? values : at::Tensor(values).normal_();
  };
  const at::Tensor a = operand(shape.m, shape.k);
  const at::Tensor weight = operand(shape.n, shape.k), b = weight.t().contiguous();
  at::Tensor out = at::empty({shape.m, shape.n}, options);
  kernels::PreparedWeight prepared;
  prepared.pack(true);
  const double plain = seconds_of(device, [&] { kernels::gemm_out(out, a, b); });
  const double packed = seconds_of(device, [&] { kernels::linear(a, weight, {}, prepared); });
  return std::min(plain, packed) * static_cast<double>(shape.count);
}

}  // namespace

double measure_gemm_rate(const std::vector<GemmShape>& shapes, models::Compute compute,
                         c10::Device device) {
  const at::TensorOptions options = at::TensorOptions(operand_dtype(compute)).device(device);
  double flops = 0, seconds = 0;
  for (const GemmShape& shape : shapes) {
    flops += shape.flops();
    seconds += seconds_of(shape, options);
  }
  return flops / seconds;
}

double best_gemm_rate(models::Compute compute, c10::Device device) {
  constexpr int repeats = 3;
  double best = 0;
  for (int i = 0; i < repeats; ++i)
    best = std::max(best, measure_gemm_rate({peak_shape_of(device, compute)}, compute, device));
  return best;
}

std::int64_t bytes_of_measurement(const GemmShape& shape, models::Compute compute) {
  const std::int64_t weights = 3 * shape.n * shape.k;  // as it is, transposed and packed
  const std::int64_t results = 2 * shape.m * shape.n;
  const std::int64_t elements = weights + shape.m * shape.k + results;
  return elements * static_cast<std::int64_t>(at::elementSize(operand_dtype(compute)));
}

}  // namespace accrue::train
