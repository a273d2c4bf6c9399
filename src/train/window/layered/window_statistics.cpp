#include "train/window/layered/window_statistics.h"

#include <ATen/ATen.h>

#include <string>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

constexpr std::int64_t channel_dimension = 1;

/// All dimensions but the channels.
std::vector<std::int64_t> reduced(const at::Tensor& x) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t i = channel_dimension + 1; i < x.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

/// `values` [C] reshaped to broadcast over `x`, in its dtype.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[channel_dimension] = values.size(0);
  return values.to(x.scalar_type()).view(shape);
}

at::Tensor inverse_deviation(const WindowStatistics& statistics, double eps) {
  return (statistics.variance + eps).rsqrt();
}

/// One number for each channel, if the layer has per-channel numbers.
at::Tensor zeros_for_channels(const std::vector<Moments>& micro_batches,
                              const models::BatchNorm& layer) {
  const at::Tensor like = !micro_batches.empty()   ? micro_batches.front().mean
                          : layer.weight.defined() ? layer.weight
                                                   : layer.running_mean;
  return at::zeros({like.size(0)}, like.options().dtype(at::kDouble));
}

void reduce(at::Tensor& sums, const AllReduce& all_reduce) {
  if (all_reduce) all_reduce(sums);
}

}  // namespace

Moments moments_of(const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> dimensions = reduced(x);
  const double count =
      static_cast<double>(x.numel()) / static_cast<double>(x.size(channel_dimension));
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor mean = wide.sum(dimensions, /*keepdim=*/true) / count;
  return {count, mean.flatten(), (wide - mean).square_().sum(dimensions)};
}

WindowStatistics combine(const std::vector<Moments>& micro_batches, const models::BatchNorm& layer,
                         const AllReduce& all_reduce) {
  at::Tensor squares = zeros_for_channels(micro_batches, layer);
  const std::int64_t channels = squares.size(0);
  at::Tensor sums = squares.new_zeros({channels + 1});  // the last is the count
  for (const Moments& part : micro_batches) {
    sums.narrow(0, 0, channels).add_(part.mean, part.count);
    sums[channels] += part.count;
  }
  reduce(sums, all_reduce);
  const double count = sums[channels].item<double>();
  if (count < 2)
    throw usage_error("batch norm " + layer.name, "at least two values a channel in the batch",
                      std::to_string(static_cast<std::int64_t>(count)), "a larger batch");
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  for (const Moments& part : micro_batches)
    squares += part.squares + (part.mean - mean).square() * part.count;
  reduce(squares, all_reduce);
  return {count, mean, squares / count};
}

at::Tensor standardised(const at::Tensor& x, const WindowStatistics& statistics, double eps) {
  return (x - per_channel(statistics.mean, x))
      .mul_(per_channel(inverse_deviation(statistics, eps), x));
}

at::Tensor affine(const at::Tensor& x_hat, const models::BatchNorm& layer) {
  if (!layer.weight.defined()) return x_hat.clone();
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x_hat.dim()), 1);
  shape[channel_dimension] = layer.weight.size(0);
  return at::addcmul(layer.bias.view(shape), x_hat, layer.weight.view(shape));
}

GradientSums& GradientSums::operator+=(const GradientSums& other) {
  g = g.defined() ? g + other.g : other.g;
  g_x_hat = g_x_hat.defined() ? g_x_hat + other.g_x_hat : other.g_x_hat;
  return *this;
}

GradientSums gradient_sums(const at::Tensor& g, const at::Tensor& x_hat) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> dimensions = reduced(g);
  const at::Tensor wide = g.to(at::kDouble);
  return {wide.sum(dimensions), (wide * x_hat).sum(dimensions)};
}

at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x_hat, const GradientSums& window,
                          const WindowStatistics& statistics, double eps) {
  const at::NoGradGuard no_grad;
  return (g - per_channel(window.g / statistics.count, g))
      .sub_(x_hat * per_channel(window.g_x_hat / statistics.count, g))
      .mul_(per_channel(inverse_deviation(statistics, eps), g));
}

void update_running(const models::BatchNorm& layer, const WindowStatistics& statistics) {
  const at::NoGradGuard no_grad;
  const auto move = [&](const at::Tensor& running, const at::Tensor& value) {
    if (running.defined())
      running.mul_(1 - layer.momentum).add_(value.to(running.scalar_type()), layer.momentum);
  };
  move(layer.running_mean, statistics.mean);
  move(layer.running_var, statistics.variance * (statistics.count / (statistics.count - 1)));
  if (layer.batches_tracked.defined()) at::Tensor(layer.batches_tracked).add_(1);
}

}  // namespace accrue::train
