#include "kernels/rows/row_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/rows/activation-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

template <class T, class Stored>
void gelu_of(const void* pre, void* out, std::size_t size) {
  const Lanes<T> d;
  const auto* from = static_cast<const Stored*>(pre);
  auto* to = static_cast<Stored*>(out);
  const auto value = [&](hn::Vec<Lanes<T>> x) HWY_ATTR { return Gelu<Lanes<T>>(d, x).value(d, x); };
  const std::size_t step = 2 * hn::Lanes(d), whole = size / step * step;
  for (std::size_t i = 0; i < whole; i += step) {
    const auto x = load_both(d, from + i);
    store_both<Lanes<T>>({value(x.first), value(x.second)}, d, to + i);
  }
  for_each_vector(d, size - whole, [&](std::size_t i, std::size_t count) HWY_ATTR {
    store(value(load(d, from + whole + i, count)), d, to + whole + i, count);
  });
}

template <class T, class Stored>
void gelu_backward_of(const void* grad_out, const void* pre, void* grad_pre, std::size_t size) {
  const Lanes<T> d;
  const auto* grad = static_cast<const Stored*>(grad_out);
  const auto* from = static_cast<const Stored*>(pre);
  auto* to = static_cast<Stored*>(grad_pre);
  const auto grad_of = [&](hn::Vec<Lanes<T>> g, hn::Vec<Lanes<T>> x)
                           HWY_ATTR { return hn::Mul(g, Gelu<Lanes<T>>(d, x).derivative(d, x)); };
  const std::size_t step = 2 * hn::Lanes(d), whole = size / step * step;
  for (std::size_t i = 0; i < whole; i += step) {
    const auto x = load_both(d, from + i), g = load_both(d, grad + i);
    store_both<Lanes<T>>({grad_of(g.first, x.first), grad_of(g.second, x.second)}, d, to + i);
  }
  for_each_vector(d, size - whole, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const std::size_t at = whole + i;
    store(grad_of(load(d, grad + at, count), load(d, from + at, count)), d, to + at, count);
  });
}

template <class T, class Stored>
void gelu_with_backward_of(const void* grad_out, const void* pre, void* out, void* grad_pre,
                           std::size_t size) {
  const Lanes<T> d;
  const auto* grad = static_cast<const Stored*>(grad_out);
  const auto* from = static_cast<const Stored*>(pre);
  auto *value = static_cast<Stored*>(out), *to = static_cast<Stored*>(grad_pre);
  const std::size_t step = 2 * hn::Lanes(d), whole = size / step * step;
  for (std::size_t i = 0; i < whole; i += step) {
    const auto x = load_both(d, from + i), g = load_both(d, grad + i);
    const Gelu<Lanes<T>> first(d, x.first), second(d, x.second);
    store_both<Lanes<T>>({hn::Mul(g.first, first.derivative(d, x.first)),
                          hn::Mul(g.second, second.derivative(d, x.second))},
                         d, to + i);
    store_both<Lanes<T>>({first.value(d, x.first), second.value(d, x.second)}, d, value + i);
  }
  for_each_vector(d, size - whole, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const std::size_t at = whole + i;
    const auto x = load(d, from + at, count);
    const Gelu<Lanes<T>> gelu(d, x);
    store(hn::Mul(load(d, grad + at, count), gelu.derivative(d, x)), d, to + at, count);
    store(gelu.value(d, x), d, value + at, count);
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
