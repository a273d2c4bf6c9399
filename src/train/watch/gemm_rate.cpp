#include "train/watch/gemm_rate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/clock.h"
#include "accrue/kernels/linear.h"
#include "kernels/gemm/gemm.h"

namespace accrue::train {
namespace {

at::ScalarType operand_dtype(models::Compute compute) {
  switch (compute) {
    case models::Compute::bf16:
      return at::kBFloat16;
    case models::Compute::fp64:
      return at::kDouble;
    case models::Compute::fp32:
      break;
  }
  return at::kFloat;
}

/// Seconds of the second run of two: the first one compiles the product and packs its operand.
template <class Product>
double seconds_of(const Product& product) {
  product();
  const Stopwatch watch;
  product();
  return watch.seconds();
}

/// The faster of the two ways that the model's own products have: a plain right operand, or a
/// weight that is packed.
double seconds_of(const GemmShape& shape, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({shape.m, shape.k}, dtype);
  const at::Tensor weight = at::ones({shape.n, shape.k}, dtype), b = weight.t().contiguous();
  at::Tensor out = at::empty({shape.m, shape.n}, dtype);
  kernels::PreparedWeight prepared;
  prepared.pack(true);
  const double plain = seconds_of([&] { kernels::gemm_out(out, a, b); });
  const double packed = seconds_of([&] { kernels::linear(a, weight, {}, prepared); });
  return std::min(plain, packed) * static_cast<double>(shape.count);
}

}  // namespace

double measure_gemm_rate(const std::vector<GemmShape>& shapes, models::Compute compute) {
  double flops = 0, seconds = 0;
  for (const GemmShape& shape : shapes) {
    flops += shape.flops();
    seconds += seconds_of(shape, operand_dtype(compute));
  }
  return flops / seconds;
}

double best_gemm_rate(models::Compute compute) {
  constexpr int repeats = 3;
  double best = 0;
  for (int i = 0; i < repeats; ++i) best = std::max(best, measure_gemm_rate({peak_shape}, compute));
  return best;
}

std::int64_t bytes_of_measurement(const GemmShape& shape, models::Compute compute) {
  const std::int64_t weights = 3 * shape.n * shape.k;  // as it is, transposed and packed
  const std::int64_t results = 2 * shape.m * shape.n;
  const std::int64_t elements = weights + shape.m * shape.k + results;
  return elements * static_cast<std::int64_t>(at::elementSize(operand_dtype(compute)));
}

}  // namespace accrue::train
