#include "kernels/gemm/matvec_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

/// The products of x with kRows rows of the weight: several at once load x once and keep as many
/// streams from memory active.
template <std::size_t kRows, class T, class Stored>
HWY_INLINE void dot_rows(const Stored* x, const Stored* rows, std::size_t stride, std::size_t terms,
                         T* sums) {
  const Lanes<T> d;
  hn::Vec<Lanes<T>> first[kRows], second[kRows];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r) first[r] = second[r] = hn::Zero(d);
  const std::size_t step = 2 * hn::Lanes(d), whole = terms / step * step;
  for (std::size_t k = 0; k < whole; k += step) {
    const auto of_x = load_both(d, x + k);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto of_row = load_both(d, rows + r * stride + k);
      first[r] = hn::MulAdd(of_x.first, of_row.first, first[r]);
      second[r] = hn::MulAdd(of_x.second, of_row.second, second[r]);
    }
  }
  for_each_vector(d, terms - whole, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto of_x = load(d, x + whole + i, count);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r)
      first[r] = hn::MulAdd(of_x, load(d, rows + r * stride + whole + i, count), first[r]);
  });
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r)
    sums[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(first[r], second[r])));
}

template <class T, class Stored, class Out>
void matvec_of(const Matvec& task, std::size_t begin, std::size_t end) {
  constexpr std::size_t block = 64;  // sums that are stored together
  constexpr std::size_t together = 4;
  const Lanes<T> d;
  const auto* x = static_cast<const Stored*>(task.x);
  const auto* weight = static_cast<const Stored*>(task.weight);
  const auto* bias = static_cast<const T*>(task.bias);
  auto* out = static_cast<Out*>(task.out);
  T sums[block];
  for (std::size_t from = begin; from < end; from += block) {
    const std::size_t size = std::min(block, end - from);
    std::size_t row = 0;
    for (; row + together <= size; row += together)
      dot_rows<together>(x, weight + (from + row) * task.stride, task.stride, task.terms,
                         sums + row);
    for (; row < size; ++row)
      dot_rows<1>(x, weight + (from + row) * task.stride, task.stride, task.terms, sums + row);
    for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
      auto value = load(d, sums + i, count);
      if (bias != nullptr) value = hn::Add(value, load(d, bias + from + i, count));
      store(value, d, out + from + i, count);
    });
  }
}

void matvec(const Matvec& task, std::size_t begin, std::size_t end) {
  if (task.type == Element::fp32) return matvec_of<float, float, float>(task, begin, end);
  if (task.type == Element::fp64) return matvec_of<double, double, double>(task, begin, end);
  if (task.out_type == Element::bf16) return matvec_of<float, Bf16, Bf16>(task, begin, end);
  matvec_of<float, Bf16, float>(task, begin, end);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(matvec);

void matvec(const Matvec& task, std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(matvec)(task, begin, end);
}

}  // namespace accrue::kernels::rows
#endif
