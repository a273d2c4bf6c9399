#include "kernels/foreign/accelerated_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>
#include <utility>

#include "kernels/foreign/interception.h"

namespace accrue {
namespace kernels {
namespace {

thread_local AcceleratedScope* innermost_scope = nullptr;

void include_key_on_this_thread(bool included) {
  c10::impl::tls_set_dispatch_key_excluded(accelerated_key, !included);
  c10::impl::tls_set_dispatch_key_included(accelerated_key, included);
}

std::uint64_t drawn_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace

AcceleratedScope::AcceleratedScope(const NamedParameters& parameters, std::uint64_t seed)
    : context_{.seed = seed}, outer_(innermost_scope) {
  for (const NamedParameter& parameter : parameters)
    parameters_.emplace(parameter.tensor.unsafeGetTensorImpl(), parameter.tensor);
  install_interception();
  innermost_scope = this;
  include_key_on_this_thread(true);
}

AcceleratedScope::~AcceleratedScope() {
  AcceleratedScope** place = &innermost_scope;
  while (*place != nullptr && *place != this) place = &(*place)->outer_;
  if (*place == this) *place = outer_;
  if (innermost_scope == nullptr) include_key_on_this_thread(false);
}

AcceleratedScope* AcceleratedScope::innermost() { return innermost_scope; }

AcceleratedScope* AcceleratedScope::of(const at::Tensor& parameter) {
  AcceleratedScope* scope = innermost_scope;
  while (scope != nullptr && !scope->parameters_.contains(parameter.unsafeGetTensorImpl()))
    scope = scope->outer_;
  return scope;
}

void AcceleratedScope::begin(std::vector<std::int64_t> sample_ids, std::int64_t window) {
  context_.sample_ids = std::move(sample_ids);
  context_.window = window;
  sites_ = 0;
}

}  // namespace kernels

Accelerated::Accelerated(const NamedParameters& parameters, const AccelerateOptions& options)
    : scope_(std::make_unique<kernels::AcceleratedScope>(
          parameters, options.seed ? *options.seed : kernels::drawn_seed())) {}
Accelerated::~Accelerated() = default;

void Accelerated::begin(std::vector<std::int64_t> sample_ids, std::int64_t window) {
  scope_->begin(std::move(sample_ids), window);
}

const AcceleratedCalls& Accelerated::calls() const { return scope_->calls; }

}  // namespace accrue
