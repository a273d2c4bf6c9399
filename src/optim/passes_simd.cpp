#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "optim/passes.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::optim::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The mean gradient plus the L2 penalty's.
template <class D, class Pass, class V>
HWY_INLINE V gradient_at(D d, const Pass& pass, std::size_t i, V parameter) {
  const auto penalty = hn::Mul(hn::Set(d, pass.l2), parameter);
  return hn::MulAdd(hn::LoadU(d, pass.gradient + i), hn::Set(d, pass.gradient_scale), penalty);
}

template <class D, class T>
HWY_INLINE void update_at(D d, const AdamPass<T>& pass, std::size_t i) {
  const auto parameter = hn::LoadU(d, pass.parameter + i);
  const auto gradient = gradient_at(d, pass, i, parameter);
  const auto old_avg = hn::LoadU(d, pass.exp_avg + i);
  const auto exp_avg =
      hn::MulAdd(hn::Sub(gradient, old_avg), hn::Set(d, pass.one_minus_beta1), old_avg);
  const auto exp_avg_sq =
      hn::MulAdd(hn::Mul(gradient, gradient), hn::Set(d, pass.one_minus_beta2),
                 hn::Mul(hn::LoadU(d, pass.exp_avg_sq + i), hn::Set(d, pass.beta2)));
  const auto denominator =
      hn::MulAdd(hn::Sqrt(exp_avg_sq), hn::Set(d, pass.second_correction), hn::Set(d, pass.eps));
  const auto kept = hn::Mul(parameter, hn::Set(d, pass.keep));
  const auto direction = hn::Div(exp_avg, denominator);
  hn::StoreU(exp_avg, d, pass.exp_avg + i);
  hn::StoreU(exp_avg_sq, d, pass.exp_avg_sq + i);
  hn::StoreU(hn::NegMulAdd(direction, hn::Set(d, pass.step_size), kept), d, pass.parameter + i);
}

/// The direction itself, or the momentum buffer after adding the direction to it.
template <class D, class Pass, class V>
HWY_INLINE V with_momentum(D d, const Pass& pass, std::size_t i, V direction) {
  if (pass.momentum_buffer == nullptr) return direction;
  const auto buffer =
      hn::MulAdd(hn::LoadU(d, pass.momentum_buffer + i), hn::Set(d, pass.momentum), direction);
  hn::StoreU(buffer, d, pass.momentum_buffer + i);
  return buffer;
}

template <class D, class T>
HWY_INLINE void update_at(D d, const SgdPass<T>& pass, std::size_t i) {
  const auto parameter = hn::LoadU(d, pass.parameter + i);
  const auto direction = with_momentum(d, pass, i, gradient_at(d, pass, i, parameter));
  hn::StoreU(hn::NegMulAdd(direction, hn::Set(d, pass.lr), parameter), d, pass.parameter + i);
}

template <class D, class T>
HWY_INLINE void update_at(D d, const RmsPropPass<T>& pass, std::size_t i) {
  const auto parameter = hn::LoadU(d, pass.parameter + i);
  const auto gradient = gradient_at(d, pass, i, parameter);
  const auto square_avg =
      hn::MulAdd(hn::Mul(gradient, gradient), hn::Set(d, pass.one_minus_alpha),
                 hn::Mul(hn::LoadU(d, pass.square_avg + i), hn::Set(d, pass.alpha)));
  hn::StoreU(square_avg, d, pass.square_avg + i);
  const auto normal = hn::Div(gradient, hn::Add(hn::Sqrt(square_avg), hn::Set(d, pass.eps)));
  const auto direction = with_momentum(d, pass, i, normal);
  hn::StoreU(hn::NegMulAdd(direction, hn::Set(d, pass.lr), parameter), d, pass.parameter + i);
}

template <class D, class T>
HWY_INLINE void update_at(D d, const MomentFold<T>& pass, std::size_t i) {
  const auto gradient = hn::LoadU(d, pass.gradient + i);
  const auto exp_avg = hn::MulAdd(gradient, hn::Set(d, pass.weight1),
                                  hn::Mul(hn::LoadU(d, pass.exp_avg + i), hn::Set(d, pass.keep1)));
  const auto exp_avg_sq =
      hn::MulAdd(hn::Mul(gradient, gradient), hn::Set(d, pass.weight2),
                 hn::Mul(hn::LoadU(d, pass.exp_avg_sq + i), hn::Set(d, pass.keep2)));
  hn::StoreU(exp_avg, d, pass.exp_avg + i);
  hn::StoreU(exp_avg_sq, d, pass.exp_avg_sq + i);
}

template <class D, class T>
HWY_INLINE void update_at(D d, const MomentStep<T>& pass, std::size_t i) {
  const auto exp_avg = hn::Mul(hn::LoadU(d, pass.exp_avg + i), hn::Set(d, pass.keep1));
  const auto exp_avg_sq = hn::Mul(hn::LoadU(d, pass.exp_avg_sq + i), hn::Set(d, pass.keep2));
  const auto denominator =
      hn::MulAdd(hn::Sqrt(exp_avg_sq), hn::Set(d, pass.second_correction), hn::Set(d, pass.eps));
  const auto kept = hn::Mul(hn::LoadU(d, pass.parameter + i), hn::Set(d, pass.keep));
  const auto direction = hn::Div(exp_avg, denominator);
  hn::StoreU(exp_avg, d, pass.exp_avg + i);
  hn::StoreU(exp_avg_sq, d, pass.exp_avg_sq + i);
  hn::StoreU(hn::NegMulAdd(direction, hn::Set(d, pass.step_size), kept), d, pass.parameter + i);
}

template <class D, class T>
HWY_INLINE void update_at(D d, const MomentumFold<T>& pass, std::size_t i) {
  const auto penalty = hn::Mul(hn::LoadU(d, pass.parameter + i), hn::Set(d, pass.l2));
  const auto kept =
      hn::MulAdd(hn::LoadU(d, pass.momentum_buffer + i), hn::Set(d, pass.keep), penalty);
  const auto buffer = pass.gradient == nullptr ? kept
                                               : hn::MulAdd(hn::LoadU(d, pass.gradient + i),
                                                            hn::Set(d, pass.weight), kept);
  hn::StoreU(buffer, d, pass.momentum_buffer + i);
}

/// `pass` is taken by value, so that the compiler knows that no store changes a coefficient.
template <class Pass>
HWY_INLINE void run_range(const Pass pass, std::size_t count) {
  const hn::ScalableTag<typename Pass::Element> d;
  const hn::CappedTag<typename Pass::Element, 1> one;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) update_at(d, pass, i);
  for (; i < count; ++i) update_at(one, pass, i);
}

void adam_fp32(const AdamPass<float>& pass, std::size_t count) { run_range(pass, count); }
void adam_fp64(const AdamPass<double>& pass, std::size_t count) { run_range(pass, count); }
void sgd_fp32(const SgdPass<float>& pass, std::size_t count) { run_range(pass, count); }
void sgd_fp64(const SgdPass<double>& pass, std::size_t count) { run_range(pass, count); }
void rmsprop_fp32(const RmsPropPass<float>& pass, std::size_t count) { run_range(pass, count); }
void rmsprop_fp64(const RmsPropPass<double>& pass, std::size_t count) { run_range(pass, count); }
void moment_fold_fp32(const MomentFold<float>& pass, std::size_t count) { run_range(pass, count); }
void moment_fold_fp64(const MomentFold<double>& pass, std::size_t count) { run_range(pass, count); }
void moment_step_fp32(const MomentStep<float>& pass, std::size_t count) { run_range(pass, count); }
void moment_step_fp64(const MomentStep<double>& pass, std::size_t count) { run_range(pass, count); }
void momentum_fold_fp32(const MomentumFold<float>& pass, std::size_t count) {
  run_range(pass, count);
}
void momentum_fold_fp64(const MomentumFold<double>& pass, std::size_t count) {
  run_range(pass, count);
}

}  // namespace accrue::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::optim {

HWY_EXPORT(adam_fp32);
HWY_EXPORT(adam_fp64);
HWY_EXPORT(sgd_fp32);
HWY_EXPORT(sgd_fp64);
HWY_EXPORT(rmsprop_fp32);
HWY_EXPORT(rmsprop_fp64);
HWY_EXPORT(moment_fold_fp32);
HWY_EXPORT(moment_fold_fp64);
HWY_EXPORT(moment_step_fp32);
HWY_EXPORT(moment_step_fp64);
HWY_EXPORT(momentum_fold_fp32);
HWY_EXPORT(momentum_fold_fp64);

void run_pass(const AdamPass<float>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(adam_fp32)(pass, count);
}
void run_pass(const AdamPass<double>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(adam_fp64)(pass, count);
}
void run_pass(const SgdPass<float>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(sgd_fp32)(pass, count);
}
void run_pass(const SgdPass<double>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(sgd_fp64)(pass, count);
}
void run_pass(const RmsPropPass<float>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(rmsprop_fp32)(pass, count);
}
void run_pass(const RmsPropPass<double>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(rmsprop_fp64)(pass, count);
}
void run_pass(const MomentFold<float>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(moment_fold_fp32)(pass, count);
}
void run_pass(const MomentFold<double>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(moment_fold_fp64)(pass, count);
}
void run_pass(const MomentStep<float>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(moment_step_fp32)(pass, count);
}
void run_pass(const MomentStep<double>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(moment_step_fp64)(pass, count);
}
void run_pass(const MomentumFold<float>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(momentum_fold_fp32)(pass, count);
}
void run_pass(const MomentumFold<double>& pass, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(momentum_fold_fp64)(pass, count);
}

}  // namespace accrue::optim
#endif
