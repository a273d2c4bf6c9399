#include "kernels/rows/rotary_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

template <class T, class Stored>
void rotate_of(const Rotation& task) {
  const Lanes<T> d;
  const auto* cosines = static_cast<const T*>(task.cosines);
  const auto* sines = static_cast<const T*>(task.sines);
  const auto sign = hn::Set(d, task.backwards ? T(-1) : T(1));
  for (std::size_t head = 0; head < task.heads; ++head) {
    const auto* first = static_cast<const Stored*>(task.from) + head * 2 * task.half;
    auto* to = static_cast<Stored*>(task.to) + head * 2 * task.half;
    const auto* second = first + task.half;
    for_each_vector(d, task.half, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const auto a = load(d, first + i, count), b = load(d, second + i, count);
      const auto c = load(d, cosines + i, count), s = hn::Mul(sign, load(d, sines + i, count));
      store(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, to + i, count);
      store(hn::MulAdd(a, s, hn::Mul(b, c)), d, to + task.half + i, count);
    });
  }
}

void rotate(const Rotation& task) {
  if (task.type == Element::fp32) return rotate_of<float, float>(task);
  if (task.type == Element::bf16) return rotate_of<float, Bf16>(task);
  rotate_of<double, double>(task);
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(rotate);

void rotate(const Rotation& task) { HWY_DYNAMIC_DISPATCH(rotate)(task); }

}  // namespace accrue::kernels::rows
#endif
