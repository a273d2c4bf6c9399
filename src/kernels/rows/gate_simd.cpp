#include "kernels/rows/gate_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/rows/activation-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

template <template <class> class Activation, class T, class Stored>
void gate_of(const GateForward& task) {
  using D = Lanes<T>;
  const D d;
  const auto* gate = static_cast<const Stored*>(task.gate);
  const auto* up = static_cast<const Stored*>(task.up);
  auto* out = static_cast<Stored*>(task.out);
  const auto value = [&](hn::Vec<D> g, hn::Vec<D> u)
                         HWY_ATTR { return hn::Mul(Activation<D>(d, g).value(d, g), u); };
  const std::size_t step = 2 * hn::Lanes(d), whole = task.size / step * step;
  for (std::size_t i = 0; i < whole; i += step) {
    const auto g = load_both(d, gate + i), u = load_both(d, up + i);
    store_both<D>({value(g.first, u.first), value(g.second, u.second)}, d, out + i);
  }
  for_each_vector(d, task.size - whole, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const std::size_t at = whole + i;
    store(value(load(d, gate + at, count), load(d, up + at, count)), d, out + at, count);
  });
}

/// The results for one vector of each operand.
template <template <class> class Activation, class D>
struct GateResults {
  hn::Vec<D> out, grad_gate, grad_up;

  HWY_INLINE GateResults(D d, hn::Vec<D> grad, hn::Vec<D> gate, hn::Vec<D> up) {
    const Activation<D> activation(d, gate);
    const auto opened = activation.value(d, gate);
    out = hn::Mul(opened, up);
    grad_gate = hn::Mul(hn::Mul(grad, up), activation.derivative(d, gate));
    grad_up = hn::Mul(grad, opened);
  }
};

template <template <class> class Activation, class T, class Stored>
void gate_backward_of(const GateBackward& task) {
  using D = Lanes<T>;
  using Results = GateResults<Activation, D>;
  const D d;
  const auto* grad = static_cast<const Stored*>(task.grad_out);
  const auto* gate = static_cast<const Stored*>(task.gate);
  const auto* up = static_cast<const Stored*>(task.up);
  auto* out = static_cast<Stored*>(task.out);
  auto* grad_gate = static_cast<Stored*>(task.grad_gate);
  auto* grad_up = static_cast<Stored*>(task.grad_up);
  const std::size_t step = 2 * hn::Lanes(d), whole = task.size / step * step;
  for (std::size_t i = 0; i < whole; i += step) {
    const auto r = load_both(d, grad + i), g = load_both(d, gate + i), u = load_both(d, up + i);
    const Results first(d, r.first, g.first, u.first), second(d, r.second, g.second, u.second);
    store_both<D>({first.out, second.out}, d, out + i);
    store_both<D>({first.grad_gate, second.grad_gate}, d, grad_gate + i);
    store_both<D>({first.grad_up, second.grad_up}, d, grad_up + i);
  }
  for_each_vector(d, task.size - whole, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const std::size_t at = whole + i;
    const Results results(d, load(d, grad + at, count), load(d, gate + at, count),
                          load(d, up + at, count));
    store(results.out, d, out + at, count);
    store(results.grad_gate, d, grad_gate + at, count);
    store(results.grad_up, d, grad_up + at, count);
  });
}

template <template <class> class Activation>
void gate_by(const GateForward& task) {
  if (task.type == Element::fp32) return gate_of<Activation, float, float>(task);
  if (task.type == Element::bf16) return gate_of<Activation, float, Bf16>(task);
  gate_of<Activation, double, double>(task);
}

template <template <class> class Activation>
void gate_backward_by(const GateBackward& task) {
  if (task.type == Element::fp32) return gate_backward_of<Activation, float, float>(task);
  if (task.type == Element::bf16) return gate_backward_of<Activation, float, Bf16>(task);
  gate_backward_of<Activation, double, double>(task);
}

void gate(const GateForward& task) {
  if (task.activation == GateActivation::silu) return gate_by<Silu>(task);
  gate_by<Gelu>(task);
}

void gate_backward(const GateBackward& task) {
  if (task.activation == GateActivation::silu) return gate_backward_by<Silu>(task);
  gate_backward_by<Gelu>(task);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(gate);
HWY_EXPORT(gate_backward);

void gate(const GateForward& task) { HWY_DYNAMIC_DISPATCH(gate)(task); }

void gate_backward(const GateBackward& task) { HWY_DYNAMIC_DISPATCH(gate_backward)(task); }

}  // namespace accrue::kernels::rows
#endif
