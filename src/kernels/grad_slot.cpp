#include "accrue/kernels/grad_slot.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <string>

#include "accrue/core/error.h"

namespace accrue::kernels {
namespace {

void expect_movable(const at::Tensor& grad) {
  if (grad.layout() != at::kStrided)
    throw usage_error("accumulate a gradient", "a dense gradient",
                      "a sparse one of " + std::to_string(grad.numel()) + " elements",
                      "turning off the embedding's 'sparse' option");
  if (at::GradMode::is_enabled())
    throw usage_error("accumulate a gradient", "a gradient without a graph of its own",
                      "one of backward() with create_graph",
                      "torch::autograd::grad for second derivatives, outside the window");
}

/// If autograd added to a bound `.grad`, the sum is already in place.
void take_in_place(GradSlot& slot) {
  if (slot.fresh)
    throw runtime_error("accumulate a gradient", "no '.grad' on a parameter with a fresh slot",
                        "one bound to the slot, whose old contents were added to",
                        "resetting '.grad' when the slot is made fresh");
  slot.bound_version = slot.bound._version();
  slot.count_contribution();
}

void take_elsewhere(GradSlot& slot, at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  if (slot.fresh)
    slot.main.copy_(grad);
  else
    slot.main.add_(grad);
  if (grad.scalar_type() == slot.bound.scalar_type())
    grad = slot.bound;
  else
    grad.reset();
  slot.count_contribution();
}

/// Folds a gradient from autograd, and leaves `.grad` undefined between micro-batches.
void take_by_fold(GradSlot& slot, at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  slot.fold->take(slot, grad);
  grad.reset();
  slot.count_contribution();
}

void receive(GradSlot& slot, const at::Tensor& parameter) {
  at::Tensor& grad = parameter.mutable_grad();
  const bool is_bound = grad.defined() && grad.is_same(slot.bound);
  // If kernels delivered everything, nothing came through autograd.
  if (!grad.defined() || (is_bound && slot.bound._version() == slot.bound_version)) return;
  expect_movable(grad);
  if (slot.fold)
    take_by_fold(slot, grad);
  else if (is_bound)
    take_in_place(slot);
  else
    take_elsewhere(slot, grad);
}

class SlotHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit SlotHook(std::shared_ptr<GradSlot> slot) : slot_(std::move(slot)) {}

  void operator()(const at::Tensor& parameter) override {
    if (slot_->open) return receive(*slot_, parameter);
    slot_->passed_by = slot_->passed_by || slot_->in_window;
  }
  GradSlot* slot() const { return slot_.get(); }

 private:
  std::shared_ptr<GradSlot> slot_;
};

torch::autograd::PostAccumulateGradHook* hook_of(const at::Tensor& parameter) {
  if (!parameter.defined() || torch::autograd::impl::get_autograd_meta(parameter) == nullptr)
    return nullptr;
  return torch::autograd::impl::post_acc_grad_hooks(parameter).get();
}

void expect_attachable(const at::Tensor& parameter, const GradSlot& slot) {
  if (!parameter.defined() || !parameter.is_leaf() || !parameter.requires_grad())
    throw usage_error("attach a gradient slot", "a leaf tensor that requires a gradient",
                      "another tensor", "attaching to the parameter itself");
  if (slot.main.sizes() != parameter.sizes())
    throw usage_error("attach a gradient slot", "a slot of the parameter's shape",
                      std::to_string(slot.main.numel()) + " for " +
                          std::to_string(parameter.numel()) + " elements, or other sizes",
                      "allocating the main gradient with at::empty(parameter.sizes())");
  const auto* hook = hook_of(parameter);
  if (hook != nullptr && dynamic_cast<const SlotHook*>(hook) == nullptr)
    throw usage_error("attach a gradient slot", "a parameter without a post-accumulate hook",
                      "one that has a hook of other code", "removing that hook first");
}

/// Whether the current backward pass is one of torch::autograd::grad for this gradient: within
/// another operation's backward, while slots are open.
bool is_asked_for(const at::Tensor& parameter) {
  const auto* pass = torch::autograd::get_current_graph_task_exec_info();
  if (pass == nullptr || pass->empty()) return false;
  const auto accumulation = torch::autograd::impl::try_get_grad_accumulator(parameter);
  const auto found = pass->find(accumulation.get());
  return found == pass->end() || found->second.captures_ != nullptr;
}

}  // namespace

GradSlot::GradSlot(at::Tensor main_gradient)
    : main(std::move(main_gradient)),
      bound(main.variable_data()),
      bound_version(bound._version()) {}

void attach(const at::Tensor& parameter, std::shared_ptr<GradSlot> slot) {
  expect_attachable(parameter, *slot);
  torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                 std::make_unique<SlotHook>(std::move(slot)));
}

void detach(const at::Tensor& parameter) {
  if (slot_of(parameter) != nullptr)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

GradSlot* slot_of(const at::Tensor& parameter) {
  const auto* hook = dynamic_cast<const SlotHook*>(hook_of(parameter));
  return hook == nullptr ? nullptr : hook->slot();
}

GradSlot* open_slot_of(const at::Tensor& parameter) {
  GradSlot* slot = slot_of(parameter);
  if (slot == nullptr || !slot->open) return nullptr;
  // A hook must see the gradient, and torch::autograd::grad must return it.
  const bool passes_autograd =
      !torch::autograd::impl::hooks(parameter).empty() || is_asked_for(parameter);
  return passes_autograd ? nullptr : slot;
}

}  // namespace accrue::kernels
