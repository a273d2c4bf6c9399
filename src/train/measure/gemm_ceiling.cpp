#include "train/measure/gemm_ceiling.h"

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

void add_linear(std::vector<GemmShape>& shapes, std::int64_t tokens, std::int64_t in,
                std::int64_t out, std::int64_t count) {
  shapes.push_back({tokens, out, in, count});
  shapes.push_back({tokens, in, out, count});
  shapes.push_back({out, in, tokens, count});
}

}  // namespace

std::vector<GemmShape> gemm_shapes(const ModelConfig& model, std::int64_t tokens) {
  if (model.kind != ModelKind::gpt2 && model.kind != ModelKind::vit) return {peak_shape};
  std::vector<GemmShape> shapes;
  const std::int64_t width = model.width;
  add_linear(shapes, tokens, width, 3 * width, model.layers);
  add_linear(shapes, tokens, width, width, model.layers);
  add_linear(shapes, tokens, width, 4 * width, model.layers);
  add_linear(shapes, tokens, 4 * width, width, model.layers);
  add_linear(shapes, tokens, width, *model.vocab, 1);
  return shapes;
}

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

}  // namespace accrue::train
