#include <ATen/Parallel.h>

#include <array>
#include <cmath>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"

namespace accrue::accum {
namespace {

/// Chunks are summed whole and added in order, so the norm has the same bits for any number of
/// threads.
constexpr std::int64_t kChunkElements = 1 << 16;

template <typename Element>
double chunk_sum_of_squares(const Element* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  std::array<double, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <typename Element>
double cpu_sum_of_squares(const at::Tensor& flat) {
  const Element* values = flat.const_data_ptr<Element>();
  const std::int64_t total = flat.numel(), chunks = (total + kChunkElements - 1) / kChunkElements;
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const std::int64_t first = chunk * kChunkElements;
      sums[static_cast<std::size_t>(chunk)] =
          chunk_sum_of_squares(values + first, std::min(kChunkElements, total - first));
    }
  });
  double sum = 0;
  for (const double chunk : sums) sum += chunk;
  return sum;
}

double sum_of_squares(const at::Tensor& flat) {
  if (!flat.is_cpu()) {
    const double norm = at::linalg_vector_norm(flat, 2, {}, false, at::kDouble).item<double>();
    return norm * norm;
  }
  return flat.scalar_type() == at::kDouble ? cpu_sum_of_squares<double>(flat)
                                           : cpu_sum_of_squares<float>(flat);
}

}  // namespace

MeanGradient::MeanGradient(std::shared_ptr<GradientBuffer> buffer, double weight)
    : buffer_(std::move(buffer)), weight_(weight), scale_(1 / weight) {}

double MeanGradient::norm() {
  if (!raw_norm_) {
    double sum = 0;
    for (const at::Tensor& flat : buffer_->flat()) sum += sum_of_squares(flat);
    raw_norm_ = std::sqrt(sum);
  }
  return *raw_norm_ * scale_;
}

double MeanGradient::clip(double max_norm) {
  if (!(max_norm > 0))
    throw usage_error("clip", "a maximal norm above 0", std::to_string(max_norm),
                      "not clipping at all, or a norm such as 1.0");
  const double before = norm();
  if (before > max_norm) scale_ *= max_norm / before;
  return before;
}

void MeanGradient::materialize() {
  if (scale_ == 1) return;
  const at::NoGradGuard no_grad;
  for (at::Tensor flat : buffer_->flat()) flat.mul_(scale_);
  if (raw_norm_) *raw_norm_ *= scale_;
  scale_ = 1;
}

}  // namespace accrue::accum
