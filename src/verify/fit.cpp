#include "verify/fit.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "verify/comparison.h"

namespace accrue::proof {
namespace {

double inner(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += at::dot(a[i].to(at::kDouble).flatten(), b[i].to(at::kDouble).flatten()).item<double>();
  return sum;
}

/// The size of a sketch, and the number of elements whose places in it are drawn at a time.
constexpr std::int64_t sketch_numbers = 4096, sketch_piece = 1 << 20;

double distance(const Tensors& a, const Tensors& b, double factor) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    squares += std::pow(l2_norm(a[i].to(at::kDouble) - b[i].to(at::kDouble) * factor), 2);
  return std::sqrt(squares);
}

Fit judged(const Tensors& gradient, const Tensors& explanation, double factor, double tolerance) {
  const double size = std::sqrt(inner(gradient, gradient));
  if (size == 0) return {};
  const double residual = distance(gradient, explanation, factor) / size;
  return {.factor = factor, .residual = residual, .matches = residual <= tolerance};
}

}  // namespace

at::Tensor sketch_of(const Tensors& gradient) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : gradient) elements += tensor.numel();
  if (elements <= sketch_numbers) {
    Tensors all;
    for (const at::Tensor& tensor : gradient)
      all.push_back(tensor.detach().to(at::kDouble).reshape({-1}));
    return at::cat(all);
  }
  const at::Generator generator = at::detail::createCPUGenerator(1);
  // Even places are added, odd ones subtracted.
  at::Tensor places = at::zeros({2 * sketch_numbers}, at::kDouble);
  for (const at::Tensor& tensor : gradient) {
    const at::Tensor flat = tensor.detach().reshape({-1});
    for (std::int64_t begin = 0; begin < flat.numel(); begin += sketch_piece) {
      const std::int64_t count = std::min(sketch_piece, flat.numel() - begin);
      places.index_add_(0, at::randint(2 * sketch_numbers, {count}, generator, at::kLong),
                        flat.narrow(0, begin, count).to(at::kDouble));
    }
  }
  const at::Tensor pairs = places.view({sketch_numbers, 2});
  return pairs.select(1, 0) - pairs.select(1, 1);
}

Tensors combination(const std::vector<Tensors>& parts, const std::vector<double>& coefficients) {
  Tensors sum;
  for (const at::Tensor& first : parts.at(0)) sum.push_back(at::zeros_like(first, at::kDouble));
  for (std::size_t k = 0; k < parts.size(); ++k)
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i].add_(parts[k][i].to(at::kDouble), coefficients[k]);
  return sum;
}

Fit fit_multiple(const Tensors& gradient, const Tensors& explanation, double tolerance) {
  const double size = inner(explanation, explanation);
  if (!(size > 0)) return {};
  return judged(gradient, explanation, inner(gradient, explanation) / size, tolerance);
}

Fit fit_span(const Tensors& gradient, const std::vector<Tensors>& parts, double tolerance,
             std::vector<double>* coefficients) {
  const auto count = static_cast<std::int64_t>(parts.size());
  const at::Tensor gram = at::zeros({count, count}, at::kDouble);
  const at::Tensor right = at::zeros({count, 1}, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensors& row = parts[static_cast<std::size_t>(i)];
    right[i][0] = inner(row, gradient);
    for (std::int64_t j = 0; j <= i; ++j)
      gram[i][j] = gram[j][i] = inner(row, parts[static_cast<std::size_t>(j)]);
  }
  const at::Tensor solution = at::matmul(at::linalg_pinv(gram, 1e-12, /*hermitian=*/true), right);
  std::vector<double> found(parts.size());
  for (std::size_t k = 0; k < parts.size(); ++k)
    found[k] = solution[static_cast<std::int64_t>(k)][0].item<double>();
  if (coefficients) *coefficients = found;
  return judged(gradient, combination(parts, found), 1, tolerance);
}

}  // namespace accrue::proof
