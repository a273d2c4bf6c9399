#include "kernels/foreign/accelerated_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/foreign/interception.h"

namespace accrue {
namespace kernels {
namespace {

/// Of this thread, the last one innermost.
thread_local std::vector<std::shared_ptr<AcceleratedScope::State>> scopes;

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
    : state_(std::make_shared<State>(std::move(of_pass))) {
  leave_closed();
  scopes.push_back(state_);
  include_key_on_this_thread(true);
}

AcceleratedScope::~AcceleratedScope() {
  state_->is_closed = true;
  leave_closed();
}

AcceleratedPass* AcceleratedScope::innermost() {
  return scopes.empty() ? nullptr : &scopes.back()->pass;
}

AcceleratedPass* AcceleratedScope::of(const at::Tensor& parameter) {
  const auto last = std::find_if(scopes.rbegin(), scopes.rend(), [&](const auto& scope) {
    return scope->pass.model->has(parameter);
  });
  return last == scopes.rend() ? nullptr : &(*last)->pass;
}

void AcceleratedScope::leave_closed() {
  const auto is_closed = [](const auto& scope) { return scope->is_closed.load(); };
  if (std::erase_if(scopes, is_closed) > 0 && scopes.empty()) include_key_on_this_thread(false);
}

}  // namespace kernels

Accelerated::Accelerated(const NamedParameters& parameters, const AccelerateOptions& options)
    : scope_(std::make_unique<kernels::AcceleratedScope>(kernels::pass_of(parameters, options))) {}
Accelerated::~Accelerated() = default;

void Accelerated::begin(std::vector<std::int64_t> sample_ids, std::int64_t window) {
  kernels::AcceleratedPass& pass = scope_->pass();
  pass.context.sample_ids = std::move(sample_ids);
  pass.context.window = window;
  pass.next_site = 0;
}

const AcceleratedCalls& Accelerated::calls() const { return scope_->pass().model->calls; }

}  // namespace accrue
