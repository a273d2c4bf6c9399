#include "kernels/cross_entropy/cross_entropy_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/soft_cap-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

template <class T>
double sum_of_row(const T* row, std::size_t size) {
  const Lanes<T> d;
  return static_cast<double>(sum_of(
      d, size, [&](std::size_t i, std::size_t count) HWY_ATTR { return load(d, row + i, count); }));
}

/// `to` may be null.
template <class T, class Stored>
LogitBlock exponentials_of(const T* logits, std::size_t size, double top, bool wants_total,
                           Stored* to) {
  const Lanes<T> d;
  LogitBlock block{.top = std::max(top, static_cast<double>(largest(d, logits, size))),
                   .sum = 0,
                   .total = wants_total ? sum_of_row(logits, size) : 0};
  // Logits that are all -inf are exponentials of 0, not of -inf + inf.
  const auto shift =
      hn::Set(d, std::isinf(block.top) && block.top < 0 ? T(0) : static_cast<T>(block.top));
  const auto shifted = [&](std::size_t i, std::size_t count) HWY_ATTR {
    return first(d, exponential(d, hn::Sub(load(d, logits + i, count), shift)), count);
  };
  const auto stored = [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto e = shifted(i, count);
    store(e, d, to + i, count);
    return e;
  };
  block.sum =
      static_cast<double>(to == nullptr ? sum_of(d, size, shifted) : sum_of(d, size, stored));
  return block;
}

template <class T>
void cap_logits_of(T* logits, std::size_t size, double soft_cap) {
  const Lanes<T> d;
  const SoftCap<Lanes<T>> cap(d, soft_cap);
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    store(cap.apply(d, load(d, logits + i, count)), d, logits + i, count);
  });
}

/// The derivative of the cap is not negative, which rounding an exponential may hide.
template <class T, class Stored>
void capped_gradient_of(Stored* values, std::size_t size, const LogitGradient& gradient) {
  const Lanes<T> d;
  const SoftCap<Lanes<T>> cap(d, gradient.soft_cap);
  const auto scale = hn::Set(d, static_cast<T>(gradient.scale));
  const auto shift = hn::Set(d, static_cast<T>(gradient.shift));
  const auto top = hn::Set(d, static_cast<T>(gradient.top));
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto e = load(d, values + i, count);
    const auto slope = hn::Max(cap.slope(d, hn::Add(top, hn::Log(d, e))), hn::Zero(d));
    store(hn::Mul(hn::MulAdd(e, scale, shift), slope), d, values + i, count);
  });
}

template <class T, class Stored>
void gradient_of(Stored* values, std::size_t size, const LogitGradient& gradient) {
  const Lanes<T> d;
  const auto scale = hn::Set(d, static_cast<T>(gradient.scale));
  const auto shift = hn::Set(d, static_cast<T>(gradient.shift));
  if (gradient.soft_cap != 0) {
    capped_gradient_of<T>(values, size, gradient);
  } else {
    for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(hn::MulAdd(load(d, values + i, count), scale, shift), d, values + i, count);
    });
  }
  if (gradient.target < size)
    store(hn::Set(d, static_cast<T>(gradient.at_target)), d, values + gradient.target, 1);
}

template <class T>
LogitBlock exponentials_to(const T* logits, std::size_t size, double top, bool wants_total,
                           Element stored, void* to) {
  if (stored == Element::bf16)
    return exponentials_of(logits, size, top, wants_total, static_cast<Bf16*>(to));
  return exponentials_of(logits, size, top, wants_total, static_cast<T*>(to));
}

void cap_logits(Element type, void* logits, std::size_t size, double soft_cap) {
  if (type == Element::fp32) return cap_logits_of(static_cast<float*>(logits), size, soft_cap);
  cap_logits_of(static_cast<double*>(logits), size, soft_cap);
}

LogitBlock exponentials(Element type, const void* logits, std::size_t size, double top,
                        bool wants_total, Element stored, void* to) {
  if (type == Element::fp32)
    return exponentials_to(static_cast<const float*>(logits), size, top, wants_total, stored, to);
  return exponentials_to(static_cast<const double*>(logits), size, top, wants_total, stored, to);
}

void cross_entropy_gradient(Element type, void* values, std::size_t size,
                            const LogitGradient& gradient) {
  if (type == Element::fp32) return gradient_of<float>(static_cast<float*>(values), size, gradient);
  if (type == Element::bf16) return gradient_of<float>(static_cast<Bf16*>(values), size, gradient);
  gradient_of<double>(static_cast<double*>(values), size, gradient);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(cap_logits);
HWY_EXPORT(exponentials);
HWY_EXPORT(cross_entropy_gradient);

void cap_logits(Element type, void* logits, std::size_t size, double soft_cap) {
  HWY_DYNAMIC_DISPATCH(cap_logits)(type, logits, size, soft_cap);
}

LogitBlock exponentials(Element type, const void* logits, std::size_t size, double top,
                        bool wants_total, Element stored, void* to) {
  return HWY_DYNAMIC_DISPATCH(exponentials)(type, logits, size, top, wants_total, stored, to);
}

void cross_entropy_gradient(Element type, void* values, std::size_t size,
                            const LogitGradient& gradient) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_gradient)(type, values, size, gradient);
}

}  // namespace accrue::kernels::rows
#endif
