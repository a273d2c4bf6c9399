#include "row_kernels.h"

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

/// The clamp hides a NaN; added, it shows in the derivative.
template <class D>
HWY_INLINE hn::Vec<D> gelu_slope_at(D d, const Gelu<D>& gelu, hn::Vec<D> x) {
  return hn::Add(gelu.derivative(d), hn::IfThenElseZero(hn::IsNaN(x), x));
}

template <class T, class Stored>
void gelu_backward_of(const void* grad_out, const void* pre, void* grad_pre, std::size_t size) {
  const Lanes<T> d;
  const auto* grad = static_cast<const Stored*>(grad_out);
  const auto* from = static_cast<const Stored*>(pre);
  auto* to = static_cast<Stored*>(grad_pre);
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto x = load(d, from + i, count);
    const auto slope = gelu_slope_at(d, Gelu<Lanes<T>>(d, x), x);
    store(hn::Mul(load(d, grad + i, count), slope), d, to + i, count);
  });
}

template <class T, class Stored>
void gelu_with_backward_of(const void* grad_out, const void* pre, void* out, void* grad_pre,
                           std::size_t size) {
  const Lanes<T> d;
  const auto* grad = static_cast<const Stored*>(grad_out);
  const auto* from = static_cast<const Stored*>(pre);
  auto *value = static_cast<Stored*>(out), *to = static_cast<Stored*>(grad_pre);
  for_each_vector(d, size, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto x = load(d, from + i, count);
    const Gelu<Lanes<T>> gelu(d, x);
    const auto slope = gelu_slope_at(d, gelu, x);
    store(hn::Mul(load(d, grad + i, count), slope), d, to + i, count);
    store(hn::Mul(x, gelu.sigmoid), d, value + i, count);
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

void gelu_with_backward(Element type, const void* grad_out, const void* pre, void* out,
                        void* grad_pre, std::size_t size) {
  if (type == Element::fp32)
    return gelu_with_backward_of<float, float>(grad_out, pre, out, grad_pre, size);
  if (type == Element::bf16)
    return gelu_with_backward_of<float, Bf16>(grad_out, pre, out, grad_pre, size);
  gelu_with_backward_of<double, double>(grad_out, pre, out, grad_pre, size);
}

void add_columns(Element type, const void* g, std::size_t rows, std::size_t stride,
                 std::size_t columns, void* sums) {
  if (type == Element::fp32) return add_columns_of<float, float>(g, rows, stride, columns, sums);
  if (type == Element::bf16) return add_columns_of<float, Bf16>(g, rows, stride, columns, sums);
  add_columns_of<double, double>(g, rows, stride, columns, sums);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(gelu_with_backward);
HWY_EXPORT(add_columns);

void gelu(Element type, const void* pre, void* out, std::size_t size) {
  HWY_DYNAMIC_DISPATCH(gelu)(type, pre, out, size);
}

void gelu_backward(Element type, const void* grad_out, const void* pre, void* grad_pre,
                   std::size_t size) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(type, grad_out, pre, grad_pre, size);
}

void gelu_with_backward(Element type, const void* grad_out, const void* pre, void* out,
                        void* grad_pre, std::size_t size) {
  HWY_DYNAMIC_DISPATCH(gelu_with_backward)(type, grad_out, pre, out, grad_pre, size);
}

void add_columns(Element type, const void* g, std::size_t rows, std::size_t stride,
                 std::size_t columns, void* sums) {
  HWY_DYNAMIC_DISPATCH(add_columns)(type, g, rows, stride, columns, sums);
}

}  // namespace accrue::kernels::rows
#endif
