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

void include_key_on_this_thread(bool included) {
  c10::impl::tls_set_dispatch_key_excluded(accelerated_key, !included);
  c10::impl::tls_set_dispatch_key_included(accelerated_key, included);
}

using Scopes = std::vector<std::shared_ptr<AcceleratedScope::State>>;

/// Outlives all objects of its thread, since it has no destructor.
thread_local bool is_over = false;

/// The scopes of a thread, the last one innermost. Those that exist when it ends are closed: a
/// scope of static storage duration is destroyed after the main thread's objects, and operations of
/// other code in that phase are libtorch's.
struct OfThread {
  ~OfThread() {
    is_over = true;
    if (!scopes.empty()) include_key_on_this_thread(false);
  }
  Scopes scopes;
};

/// Those of this thread; null if it has ended except for objects of static storage duration.
Scopes* scopes_of_thread() {
  if (is_over) return nullptr;
  thread_local OfThread of_thread;
  return &of_thread.scopes;
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
  Scopes* const scopes = scopes_of_thread();
  if (scopes == nullptr) return;
  scopes->push_back(state_);
  include_key_on_this_thread(true);
}

AcceleratedScope::~AcceleratedScope() {
  state_->is_closed = true;
  leave_closed();
}

AcceleratedPass* AcceleratedScope::innermost() {
  const Scopes* const scopes = scopes_of_thread();
  return scopes == nullptr || scopes->empty() ? nullptr : &scopes->back()->pass;
}

AcceleratedPass* AcceleratedScope::of(const at::Tensor& parameter) {
  const Scopes* const scopes = scopes_of_thread();
  if (scopes == nullptr) return nullptr;
  const auto last = std::find_if(scopes->rbegin(), scopes->rend(), [&](const auto& scope) {
    return scope->pass.model->has(parameter);
  });
  return last == scopes->rend() ? nullptr : &(*last)->pass;
}

void AcceleratedScope::leave_closed() {
  Scopes* const scopes = scopes_of_thread();
  if (scopes == nullptr) return;
  const auto is_closed = [](const auto& scope) { return scope->is_closed.load(); };
  if (std::erase_if(*scopes, is_closed) > 0 && scopes->empty()) include_key_on_this_thread(false);
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
