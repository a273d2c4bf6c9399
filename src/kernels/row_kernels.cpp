#include "row_kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "row_kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first: it includes this file once per instruction set.
#include <hwy/highway.h>

#include "vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

constexpr double gelu_cubic = 0.044715;
constexpr double gelu_slope = 1.5957691216057308;  // 2 * sqrt(2 / pi)

/// Beyond this |x| the sigmoid is 0 or 1 to the precision of T; squares of larger x could overflow.
template <class T>
constexpr T gelu_saturation = sizeof(T) == sizeof(double) ? T(20) : T(10.6);

/// gelu_tanh(x) = x * sigmoid(z), z = 2 sqrt(2/pi) (x + 0.044715 x^3): no cancellation, one exp.
template <class D>
struct Gelu {
  using T = hn::TFromD<D>;
  hn::Vec<D> clamped, square, sigmoid;

  HWY_INLINE Gelu(D d, hn::Vec<D> x) {
    const auto limit = hn::Set(d, gelu_saturation<T>);
    clamped = hn::Min(hn::Max(x, hn::Neg(limit)), limit);
    square = hn::Mul(clamped, clamped);
    const auto polynomial =
        hn::MulAdd(square, hn::Set(d, T(-gelu_slope * gelu_cubic)), hn::Set(d, T(-gelu_slope)));
    const auto one = hn::Set(d, T(1));
    sigmoid = hn::Div(one, hn::Add(one, hn::Exp(d, hn::Mul(clamped, polynomial))));
  }

  HWY_INLINE hn::Vec<D> derivative(D d) const {
    const auto slope =
        hn::MulAdd(square, hn::Set(d, T(3 * gelu_slope * gelu_cubic)), hn::Set(d, T(gelu_slope)));
    const auto bell = hn::Mul(sigmoid, hn::Sub(hn::Set(d, T(1)), sigmoid));
    return hn::MulAdd(hn::Mul(clamped, bell), slope, sigmoid);
  }
};

template <class T, class Stored>
void gelu_of(const void* pre, void* out, std::size_t size) {
  const Lanes<T> d;
  const auto* from = static_cast<const Stored*>(pre);
  auto* to = static_cast<Stored*>(out);
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto x = load(d, from + i, count);
    store(hn::Mul(x, Gelu<Lanes<T>>(d, x).sigmoid), d, to + i, count);
  });
}

template <class T, class Stored>
void gelu_backward_of(const void* grad_out, const void* pre, void* grad_pre, std::size_t size) {
  const Lanes<T> d;
  const auto* grad = static_cast<const Stored*>(grad_out);
  const auto* from = static_cast<const Stored*>(pre);
  auto* to = static_cast<Stored*>(grad_pre);
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto x = load(d, from + i, count);
    // The clamp hides a NaN; added, it shows in the derivative.
    const auto derivative =
        hn::Add(Gelu<Lanes<T>>(d, x).derivative(d), hn::IfThenElseZero(hn::IsNaN(x), x));
    store(hn::Mul(load(d, grad + i, count), derivative), d, to + i, count);
  });
}

template <class T, class Stored>
void add_columns_of(const void* g, std::size_t rows, std::size_t stride, std::size_t columns,
                    void* sums) {
  const Lanes<T> d;
  const auto* from = static_cast<const Stored*>(g);
  auto* to = static_cast<T*>(sums);
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const auto* r = from + row * stride;
    for_each_vector(d, columns, [&](std::size_t j, std::size_t count) HWY_ATTR {
      const auto low = hn::Add(load(d, r + j, count), load(d, r + stride + j, count));
      const auto high =
          hn::Add(load(d, r + 2 * stride + j, count), load(d, r + 3 * stride + j, count));
      store(hn::Add(load(d, to + j, count), hn::Add(low, high)), d, to + j, count);
    });
  }
  for (; row < rows; ++row) {
    const auto* r = from + row * stride;
    for_each_vector(d, columns, [&](std::size_t j, std::size_t count) HWY_ATTR {
      store(hn::Add(load(d, to + j, count), load(d, r + j, count)), d, to + j, count);
    });
  }
}

/// The smoothed part of a row's loss reads all logits: x[target] becomes a mixture of it and their
/// mean.
template <class T>
double smoothed_logit(const T* logits, std::size_t size, std::size_t target, double smoothing) {
  const auto at_target = static_cast<double>(logits[target]);
  if (smoothing == 0) return at_target;
  const Lanes<T> d;
  const T sum = sum_of(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    return load(d, logits + i, count);
  });
  return (1 - smoothing) * at_target +
         smoothing * static_cast<double>(sum) / static_cast<double>(size);
}

double row_loss(double log_sum, double logit, const CrossEntropyTerms& terms) {
  return log_sum - logit + terms.z_loss * log_sum * log_sum;
}

template <class T>
double cross_entropy_of(const T* logits, std::size_t size, std::size_t target,
                        const CrossEntropyTerms& terms) {
  const Lanes<T> d;
  const T top = largest(d, logits, size);
  const T sum = sum_of(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto shifted = hn::Sub(load(d, logits + i, count), hn::Set(d, top));
    return first(d, exponential(d, shifted), count);
  });
  const double log_sum = std::log(static_cast<double>(sum)) + static_cast<double>(top);
  return row_loss(log_sum, smoothed_logit(logits, size, target, terms.label_smoothing), terms);
}

template <class T, class Grad>
double cross_entropy_with_grad_of(T* logits, std::size_t size, std::size_t target,
                                  const CrossEntropyTerms& terms, double factor, Grad* grad) {
  const Lanes<T> d;
  const T top = largest(d, logits, size);
  const double logit = smoothed_logit(logits, size, target, terms.label_smoothing);
  const T sum = sum_of(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto shifted = hn::Sub(load(d, logits + i, count), hn::Set(d, top));
    const auto e = first(d, exponential(d, shifted), count);
    store(e, d, logits + i, count);
    return e;
  });
  const double log_sum = std::log(static_cast<double>(sum)) + static_cast<double>(top);
  // softmax * (1 + pull) - label; the label is 1 - e at the target and e / V everywhere.
  const double pull = 2 * terms.z_loss * log_sum;
  const double everywhere = terms.label_smoothing / static_cast<double>(size);
  const double softmax = static_cast<double>(logits[target]) / static_cast<double>(sum);
  const double at_target = softmax - (1 - terms.label_smoothing) - everywhere + softmax * pull;
  const auto scale = hn::Set(d, static_cast<T>(factor * (1 + pull) / static_cast<double>(sum)));
  const auto shift = hn::Set(d, static_cast<T>(-factor * everywhere));
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    store(hn::MulAdd(load(d, logits + i, count), scale, shift), d, grad + i, count);
  });
  store(hn::Set(d, static_cast<T>(factor * at_target)), d, grad + target, 1);
  return row_loss(log_sum, logit, terms);
}

void gelu(Element type, const void* pre, void* out, std::size_t size) {
  if (type == Element::fp32) return gelu_of<float, float>(pre, out, size);
  if (type == Element::bf16) return gelu_of<float, Bf16>(pre, out, size);
  gelu_of<double, double>(pre, out, size);
}

void gelu_backward(Element type, const void* grad_out, const void* pre, void* grad_pre,
                   std::size_t size) {
  if (type == Element::fp32) return gelu_backward_of<float, float>(grad_out, pre, grad_pre, size);
  if (type == Element::bf16) return gelu_backward_of<float, Bf16>(grad_out, pre, grad_pre, size);
  gelu_backward_of<double, double>(grad_out, pre, grad_pre, size);
}

void add_columns(Element type, const void* g, std::size_t rows, std::size_t stride,
                 std::size_t columns, void* sums) {
  if (type == Element::fp32) return add_columns_of<float, float>(g, rows, stride, columns, sums);
  if (type == Element::bf16) return add_columns_of<float, Bf16>(g, rows, stride, columns, sums);
  add_columns_of<double, double>(g, rows, stride, columns, sums);
}

double cross_entropy_row(Element type, const void* logits, std::size_t size, std::size_t target,
                         const CrossEntropyTerms& terms) {
  if (type == Element::fp32)
    return cross_entropy_of(static_cast<const float*>(logits), size, target, terms);
  return cross_entropy_of(static_cast<const double*>(logits), size, target, terms);
}

template <class T>
double cross_entropy_row_to(T* logits, std::size_t size, std::size_t target,
                            const CrossEntropyTerms& terms, double factor, Element grad_type,
                            void* grad) {
  if (grad_type == Element::bf16)
    return cross_entropy_with_grad_of(logits, size, target, terms, factor,
                                      static_cast<Bf16*>(grad));
  return cross_entropy_with_grad_of(logits, size, target, terms, factor, static_cast<T*>(grad));
}

double cross_entropy_row_with_grad(Element type, void* logits, std::size_t size, std::size_t target,
                                   const CrossEntropyTerms& terms, double factor, Element grad_type,
                                   void* grad) {
  if (type == Element::fp32)
    return cross_entropy_row_to(static_cast<float*>(logits), size, target, terms, factor, grad_type,
                                grad);
  return cross_entropy_row_to(static_cast<double*>(logits), size, target, terms, factor, grad_type,
                              grad);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(add_columns);
HWY_EXPORT(cross_entropy_row);
HWY_EXPORT(cross_entropy_row_with_grad);

void gelu(Element type, const void* pre, void* out, std::size_t size) {
  HWY_DYNAMIC_DISPATCH(gelu)(type, pre, out, size);
}

void gelu_backward(Element type, const void* grad_out, const void* pre, void* grad_pre,
                   std::size_t size) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(type, grad_out, pre, grad_pre, size);
}

void add_columns(Element type, const void* g, std::size_t rows, std::size_t stride,
                 std::size_t columns, void* sums) {
  HWY_DYNAMIC_DISPATCH(add_columns)(type, g, rows, stride, columns, sums);
}

double cross_entropy_row(Element type, const void* logits, std::size_t size, std::size_t target,
                         const CrossEntropyTerms& terms) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_row)(type, logits, size, target, terms);
}

double cross_entropy_row_with_grad(Element type, void* logits, std::size_t size, std::size_t target,
                                   const CrossEntropyTerms& terms, double factor, Element grad_type,
                                   void* grad) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_row_with_grad)(type, logits, size, target, terms,
                                                           factor, grad_type, grad);
}

}  // namespace accrue::kernels::rows
#endif
