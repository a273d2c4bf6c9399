#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "accum/norm_passes.h"
#include "support/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::accum::HWY_NAMESPACE {

void over_roots(const float* values, const float* moments, std::size_t count,
                const RootOfMoment& root, float* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  accrue::HWY_NAMESPACE::sweep(count, [=](auto d, std::size_t i) {
    const auto value = hn::LoadU(d, values + i);
    const auto divisor =
        hn::Add(hn::Mul(hn::Sqrt(hn::LoadU(d, moments + i)), hn::Set(d, root.correction)),
                hn::Set(d, root.eps));
    hn::StoreU(hn::Div(hn::Mul(value, value), divisor), d, to + i);
  });
}

}  // namespace accrue::accum::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::accum {

HWY_EXPORT(over_roots);

void squares_over_roots(const float* values, const float* moments, std::size_t count,
                        const RootOfMoment& root, float* to) {
  HWY_DYNAMIC_DISPATCH(over_roots)(values, moments, count, root, to);
}

}  // namespace accrue::accum
#endif
