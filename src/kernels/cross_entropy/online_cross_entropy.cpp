#include "kernels/cross_entropy/online_cross_entropy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/cross_entropy/cross_entropy_simd.h"
#include "kernels/grain.h"

namespace accrue::kernels {
namespace {

double value_at(const at::Tensor& tensor, std::int64_t index) {
  return tensor.scalar_type() == at::kDouble ? tensor.const_data_ptr<double>()[index]
                                             : tensor.const_data_ptr<float>()[index];
}

/// e^(from - to), from <= to; 1 if both are the same infinity.
double ratio(double from, double to) { return from == to ? 1 : std::exp(from - to); }

double square(double value) { return value * value; }

}  // namespace

OnlineCrossEntropy::OnlineCrossEntropy(const CrossEntropyRows& labels, std::int64_t rows,
                                       std::int64_t classes, std::int64_t block)
    : labels_(labels),
      classes_(classes),
      block_(block),
      blocks_((classes + block - 1) / block),
      rows_(static_cast<std::size_t>(rows)),
      tops_(static_cast<std::size_t>(rows * blocks_)) {
  for (std::int64_t row = 0; row < rows; ++row) {
    Row& of = rows_[static_cast<std::size_t>(row)];
    if (labels.targets[row] != labels.ignored)
      of.weight = labels.row_weights == nullptr ? 1 : labels.row_weights[row];
    of.factor = labels.gradient_scale;
    if (labels.gradient_factors != nullptr) of.factor *= labels.gradient_factors[row];
  }
}

void OnlineCrossEntropy::add(std::int64_t first, at::Tensor& logits, at::Tensor* exponentials) {
  RECORD_FUNCTION("accrue::cross_entropy",
                  span_of({logits, exponentials ? *exponentials : at::Tensor()}));
  const std::int64_t size = logits.size(1);
  const Element type = element_of(logits.scalar_type(), "cross_entropy");
  const Element stored =
      exponentials == nullptr ? type : element_of(exponentials->scalar_type(), "cross_entropy");
  const auto take = [&](std::int64_t index) {
    Row& row = rows_[static_cast<std::size_t>(index)];
    if (row.weight == 0) return;
    const std::int64_t begin = index * logits.stride(0);
    if (labels_.soft_cap != 0)
      rows::cap_logits(type, element(logits, begin), static_cast<std::size_t>(size),
                       labels_.soft_cap);
    const std::int64_t target = labels_.targets[index] - first;
    if (target >= 0 && target < size) row.target = value_at(logits, begin + target);
    const rows::LogitBlock block = rows::exponentials(
        type, element(logits, begin), static_cast<std::size_t>(size), row.top,
        labels_.label_smoothing != 0, stored,
        exponentials ? element(*exponentials, index * exponentials->stride(0)) : nullptr);
    row.sum = row.sum * ratio(row.top, block.top) + block.sum;
    row.total += block.total;
    row.top = block_top(index, first) = block.top;
  };
  at::parallel_for(0, logits.size(0), grain_of(size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) take(index);
  });
}

double OnlineCrossEntropy::finish(double* losses) {
  double sum = 0;
  for (std::size_t index = 0; index < rows_.size(); ++index) {
    Row& row = rows_[index];
    const double loss = row.weight == 0 ? 0 : row.weight * finish_row(row);
    if (losses != nullptr) losses[index] = loss;
    sum += loss;
  }
  return sum;
}

/// The smoothed part of a row's loss depends on all logits: the target's becomes a mixture of it
/// and their mean.
double OnlineCrossEntropy::finish_row(Row& row) const {
  const double smoothing = labels_.label_smoothing, classes = static_cast<double>(classes_);
  const double log_sum = std::log(row.sum) + row.top;
  // softmax * (1 + pull) - label; the label is 1 - e at the target and e / V everywhere.
  const double pull = 2 * labels_.z_loss * log_sum, everywhere = smoothing / classes;
  const double softmax = std::exp(row.target - row.top) / row.sum;
  const double factor = row.weight * row.factor;
  row.scale = factor * (1 + pull) / row.sum;
  row.shift = -factor * everywhere;
  row.at_target = factor * (softmax - (1 - smoothing) - everywhere + softmax * pull);
  if (labels_.soft_cap != 0) row.at_target *= 1 - square(row.target / labels_.soft_cap);
  const double logit =
      smoothing == 0 ? row.target : (1 - smoothing) * row.target + everywhere * row.total;
  return log_sum - logit + labels_.z_loss * log_sum * log_sum;
}

void OnlineCrossEntropy::to_gradient(std::int64_t first, at::Tensor& exponentials) const {
  RECORD_FUNCTION("accrue::cross_entropy_backward", span_of({exponentials}));
  const std::int64_t size = exponentials.size(1);
  const Element type = element_of(exponentials.scalar_type(), "cross_entropy");
  const auto turn = [&](std::int64_t index) {
    const Row& row = rows_[static_cast<std::size_t>(index)];
    char* values = element(exponentials, index * exponentials.stride(0));
    if (row.weight == 0) {
      std::fill_n(values, size * exponentials.element_size(), char{0});
      return;
    }
    const std::int64_t target = labels_.targets[index] - first;
    const double top = tops_[static_cast<std::size_t>(index * blocks_ + first / block_)];
    rows::cross_entropy_gradient(type, values, static_cast<std::size_t>(size),
                                 {.scale = row.scale * ratio(top, row.top),
                                  .shift = row.shift,
                                  .at_target = row.at_target,
                                  .target = static_cast<std::size_t>(target >= 0 ? target : size),
                                  .soft_cap = labels_.soft_cap,
                                  .top = top});
  };
  at::parallel_for(0, exponentials.size(0), grain_of(size),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t index = begin; index < end; ++index) turn(index);
                   });
}

double& OnlineCrossEntropy::block_top(std::int64_t row, std::int64_t first) {
  return tops_[static_cast<std::size_t>(row * blocks_ + first / block_)];
}

}  // namespace accrue::kernels
