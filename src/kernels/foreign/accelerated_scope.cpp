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

AcceleratedPass pass_of(const NamedParameters& parameters, const AccelerateOptions& options) {
  return {.model = std::make_shared<AcceleratedModel>(parameters),
          .context = {.seed = options.seed ? *options.seed : drawn_seed()}};
}

}  // namespace

AcceleratedModel::AcceleratedModel(const NamedParameters& parameters) {
  for (const NamedParameter& parameter : parameters)
    parameters_.emplace(parameter.tensor.unsafeGetTensorImpl(), parameter.tensor);
  install_interception();
}

AcceleratedScope::AcceleratedScope(AcceleratedPass of_pass)
    : pass(std::move(of_pass)), outer_(innermost_scope) {
  innermost_scope = this;
  include_key_on_this_thread(true);
}

AcceleratedScope::~AcceleratedScope() {
  AcceleratedScope** place = &innermost_scope;
  while (*place != nullptr && *place != this) place = &(*place)->outer_;
  if (*place == this) *place = outer_;
  if (innermost_scope == nullptr) include_key_on_this_thread(false);
}

AcceleratedPass* AcceleratedScope::innermost() {
  return innermost_scope == nullptr ? nullptr : &innermost_scope->pass;
}

AcceleratedPass* AcceleratedScope::of(const at::Tensor& parameter) {
  AcceleratedScope* scope = innermost_scope;
  while (scope != nullptr && !scope->pass.model->has(parameter)) scope = scope->outer_;
  return scope == nullptr ? nullptr : &scope->pass;
}

}  // namespace kernels

Accelerated::Accelerated(const NamedParameters& parameters, const AccelerateOptions& options)
    : scope_(std::make_unique<kernels::AcceleratedScope>(kernels::pass_of(parameters, options))) {}
Accelerated::~Accelerated() = default;

void Accelerated::begin(std::vector<std::int64_t> sample_ids, std::int64_t window) {
  kernels::AcceleratedPass& pass = scope_->pass;
  pass.context.sample_ids = std::move(sample_ids);
  pass.context.window = window;
  pass.next_site = 0;
}

const AcceleratedCalls& Accelerated::calls() const { return scope_->pass.model->calls; }

}  // namespace accrue
