#include "kernels/rows/norm_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

template <class T>
struct Statistics {
  T mean, scale;
};

template <class T, class Y>
void add_row(const T* x, const Y* y, T* sum, std::size_t columns) {
  const Lanes<T> d;
  for_each_vector(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
    store(hn::Add(load(d, x + i, count), load(d, y + i, count)), d, sum + i, count);
  });
}

/// It takes two passes over a row in the first-level cache, so nothing cancels.
template <class T, class Stored>
Statistics<T> statistics_of(const Stored* row, std::size_t columns, double eps) {
  const Lanes<T> d;
  const T mean =
      sum_of(d, columns,
             [&](std::size_t i, std::size_t count) HWY_ATTR { return load(d, row + i, count); }) /
      static_cast<T>(columns);
  const T squares = sum_of(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto centred = first(d, hn::Sub(load(d, row + i, count), hn::Set(d, mean)), count);
    return hn::Mul(centred, centred);
  });
  const double variance = static_cast<double>(squares) / static_cast<double>(columns);
  return {mean, static_cast<T>(1 / std::sqrt(variance + eps))};
}

template <class T, class Stored>
Statistics<T> root_mean_square_of(const Stored* row, std::size_t columns, double eps) {
  const Lanes<T> d;
  const T squares = sum_of(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto value = load(d, row + i, count);
    return hn::Mul(value, value);
  });
  const double mean_square = static_cast<double>(squares) / static_cast<double>(columns);
  return {0, static_cast<T>(1 / std::sqrt(mean_square + eps))};
}

template <class T, class Stored, class Out>
void normalise_row(const Stored* row, Statistics<T> statistics, const T* weight, const T* bias,
                   Out* out, std::size_t columns) {
  const Lanes<T> d;
  const auto mean = hn::Set(d, statistics.mean), scale = hn::Set(d, statistics.scale);
  for_each_vector(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto normal = hn::Mul(hn::Sub(load(d, row + i, count), mean), scale);
    store(hn::MulAdd(normal, load(d, weight + i, count), load(d, bias + i, count)), d, out + i,
          count);
  });
}

template <class T, class Stored, class Out>
void scale_row(const Stored* row, T factor, const T* weight, Out* out, std::size_t columns) {
  const Lanes<T> d;
  const auto scale = hn::Set(d, factor);
  for_each_vector(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto normal = hn::Mul(load(d, row + i, count), scale);
    store(hn::Mul(normal, load(d, weight + i, count)), d, out + i, count);
  });
}

/// The row to normalise: x, or its sum with y.
template <class T>
const T* input_row(const NormForward& task, std::size_t start) {
  const T* x = static_cast<const T*>(task.x) + start;
  if (task.y == nullptr) return x;
  T* sum = static_cast<T*>(task.sum) + start;
  if (task.y_type == Element::bf16)
    add_row(x, static_cast<const Bf16*>(task.y) + start, sum, task.columns);
  else
    add_row(x, static_cast<const T*>(task.y) + start, sum, task.columns);
  return sum;
}

template <class T, class Stored, class Out>
Statistics<T> norm_row(const NormForward& task, const Stored* row, Out* out) {
  const auto* weight = static_cast<const T*>(task.weight);
  if (task.bias == nullptr) {
    const auto statistics = root_mean_square_of<T>(row, task.columns, task.eps);
    scale_row(row, statistics.scale, weight, out, task.columns);
    return statistics;
  }
  const auto statistics = statistics_of<T>(row, task.columns, task.eps);
  normalise_row(row, statistics, weight, static_cast<const T*>(task.bias), out, task.columns);
  return statistics;
}

template <class T>
void norm_forward_of(const NormForward& task) {
  auto* statistics = static_cast<Statistics<T>*>(task.statistics);
  for (std::size_t i = 0; i < task.rows; ++i) {
    const std::size_t start = i * task.columns;
    if (task.x_type == Element::bf16) {
      statistics[i] = norm_row<T>(task, static_cast<const Bf16*>(task.x) + start,
                                  static_cast<Bf16*>(task.out) + start);
      continue;
    }
    const T* row = input_row<T>(task, start);
    statistics[i] = task.out_type == Element::bf16
                        ? norm_row<T>(task, row, static_cast<Bf16*>(task.out) + start)
                        : norm_row<T>(task, row, static_cast<T*>(task.out) + start);
  }
}

/// One row's part of the gradients of weight and bias, and the two sums that the input's gradient
/// needs. If the row was not centred, the mean of its gradient is not part of it.
template <class T, bool kCentred>
struct RowReduction {
  T mean_grad = 0, mean_grad_normal = 0;

  template <class Stored, class Grad>
  HWY_INLINE RowReduction(const Grad* grad, const Stored* row, Statistics<T> statistics,
                          const T* weight, T* weight_sums, T* bias_sums, std::size_t columns) {
    const Lanes<T> d;
    const auto mean = hn::Set(d, statistics.mean), scale = hn::Set(d, statistics.scale);
    auto sum = hn::Zero(d), sum_normal = hn::Zero(d);
    for_each_vector(d, columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const auto g = load(d, grad + i, count);
      const auto normal = first(d, hn::Mul(hn::Sub(load(d, row + i, count), mean), scale), count);
      const auto weighted = hn::Mul(g, load(d, weight + i, count));
      sum_normal = hn::MulAdd(weighted, normal, sum_normal);
      store(hn::MulAdd(g, normal, load(d, weight_sums + i, count)), d, weight_sums + i, count);
      if constexpr (kCentred) {
        sum = hn::Add(sum, weighted);
        store(hn::Add(g, load(d, bias_sums + i, count)), d, bias_sums + i, count);
      }
    });
    if constexpr (kCentred)
      mean_grad = hn::GetLane(hn::SumOfLanes(d, sum)) / static_cast<T>(columns);
    mean_grad_normal = hn::GetLane(hn::SumOfLanes(d, sum_normal)) / static_cast<T>(columns);
  }
};

template <class T, bool kCentred, class Stored, class Grad>
void norm_backward_of(const NormBackward& task) {
  const Lanes<T> d;
  const auto* weight = static_cast<const T*>(task.weight);
  const auto* statistics = static_cast<const Statistics<T>*>(task.statistics);
  for (std::size_t r = 0; r < task.rows; ++r) {
    const std::size_t start = r * task.columns;
    const Grad* grad = static_cast<const Grad*>(task.grad_out) + start;
    const Stored* row = static_cast<const Stored*>(task.input) + start;
    const T* grad_sum =
        task.grad_sum == nullptr ? nullptr : static_cast<const T*>(task.grad_sum) + start;
    Stored* grad_input = static_cast<Stored*>(task.grad_input) + start;
    Bf16* grad_y = task.grad_y == nullptr ? nullptr : static_cast<Bf16*>(task.grad_y) + start;

    const RowReduction<T, kCentred> reduced(grad, row, statistics[r], weight,
                                            static_cast<T*>(task.weight_sums),
                                            static_cast<T*>(task.bias_sums), task.columns);
    const auto mean = hn::Set(d, statistics[r].mean), scale = hn::Set(d, statistics[r].scale);
    const auto mean_grad = hn::Set(d, reduced.mean_grad);
    const auto mean_grad_normal = hn::Set(d, reduced.mean_grad_normal);
    for_each_vector(d, task.columns, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load(d, row + i, count), mean), scale);
      const auto weighted = hn::Mul(load(d, grad + i, count), load(d, weight + i, count));
      const auto centred = hn::Sub(weighted, hn::MulAdd(normal, mean_grad_normal, mean_grad));
      auto result = hn::Mul(scale, centred);
      if (grad_sum != nullptr) result = hn::Add(result, load(d, grad_sum + i, count));
      store(result, d, grad_input + i, count);
      if (grad_y != nullptr) store(result, d, grad_y + i, count);
    });
  }
}

template <class T, bool kCentred>
void norm_backward_in(const NormBackward& task) {
  if (task.input_type == Element::bf16) return norm_backward_of<T, kCentred, Bf16, Bf16>(task);
  if (task.out_type == Element::bf16) return norm_backward_of<T, kCentred, T, Bf16>(task);
  norm_backward_of<T, kCentred, T, T>(task);
}

void norm_forward(const NormForward& task) {
  if (task.master == Element::fp64) return norm_forward_of<double>(task);
  norm_forward_of<float>(task);
}

void norm_backward(const NormBackward& task) {
  const bool centred = task.bias_sums != nullptr;
  if (task.master == Element::fp64)
    return centred ? norm_backward_in<double, true>(task) : norm_backward_in<double, false>(task);
  return centred ? norm_backward_in<float, true>(task) : norm_backward_in<float, false>(task);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(norm_forward);
HWY_EXPORT(norm_backward);

void norm_forward(const NormForward& task) { HWY_DYNAMIC_DISPATCH(norm_forward)(task); }

void norm_backward(const NormBackward& task) { HWY_DYNAMIC_DISPATCH(norm_backward)(task); }

}  // namespace accrue::kernels::rows
#endif
