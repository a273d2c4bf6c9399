#include "accrue/models/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "kernels/foreign/accelerated_scope.h"
#include "support/snapshot.h"

namespace accrue {
namespace {

using kernels::AcceleratedPass;
using kernels::AcceleratedScope;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* checkpointing = "checkpoint";

/// The state that a function's results depend on besides its inputs and parameters: libtorch's
/// random generators and autocast, of the CPU and of the inputs' devices.
class RunState {
 public:
  /// Captures the present state.
  explicit RunState(const variable_list& inputs)
      : devices_(devices_of(cuda_only(inputs))), generators_(devices_) {
    for (const at::Device& device : devices_)
      autocast_.push_back({at::autocast::is_autocast_enabled(device.type()),
                           at::autocast::get_autocast_dtype(device.type())});
  }

  void restore() const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const at::DeviceType type = devices_[i].type();
      at::autocast::set_autocast_enabled(type, autocast_[i].enabled);
      at::autocast::set_autocast_dtype(type, autocast_[i].dtype);
    }
    generators_.restore();
  }

 private:
  struct Autocast {
    bool enabled;
    at::ScalarType dtype;
  };

  static variable_list cuda_only(variable_list tensors) {
    std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.is_cuda(); });
    return tensors;
  }

  std::vector<at::Device> devices_;
  std::vector<Autocast> autocast_;
  GeneratorSnapshot generators_;
};

/// A cast that autocast caches in a run without a graph would hide the weight from later uses.
class NoKeptCasts {
 public:
  NoKeptCasts() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoKeptCasts() { at::autocast::set_autocast_cache_enabled(before_); }
  NoKeptCasts(const NoKeptCasts&) = delete;
  NoKeptCasts& operator=(const NoKeptCasts&) = delete;

 private:
  bool before_;
};

std::string text_of(const variable_list& results) {
  std::string text;
  for (const at::Tensor& result : results)
    text += (text.empty() ? "" : ", ") + c10::str(result.scalar_type(), ' ', result.sizes());
  return text.empty() ? "none" : text;
}

/// Runs fn(inputs) and checks its results.
variable_list run(const CheckpointedFunction& fn, const variable_list& inputs) {
  const NoKeptCasts no_kept_casts;
  std::vector<std::uint32_t> versions;
  for (const at::Tensor& input : inputs) versions.push_back(input._version());
  variable_list results = fn(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]._version() != versions[i])
      throw usage_error(checkpointing, "a function that leaves its inputs as they are",
                        "one that wrote to input " + std::to_string(i),
                        "operations that are not in place at its beginning");
  for (const at::Tensor& result : results)
    if (!result.defined())
      throw usage_error(checkpointing, "results that are tensors", "an undefined one",
                        "leaving it out of the results");
  return results;
}

/// The data of the first run that the second run needs.
struct FirstRun : torch::CustomClassHolder {
  FirstRun(CheckpointedFunction function, const variable_list& inputs)
      : fn(std::move(function)), state(inputs) {
    if (const AcceleratedPass* running = AcceleratedScope::innermost()) pass = *running;
  }

  CheckpointedFunction fn;
  RunState state;
  /// The acceleration of the first run, if any; backward may run after it has ended.
  std::optional<AcceleratedPass> pass;
  std::string results;
};

/// autograd gives the results a history, which tensors captured by `fn` must not get.
void detach_captured(variable_list& results, const variable_list& inputs) {
  for (at::Tensor& result : results)
    if (std::ranges::none_of(inputs, [&](const at::Tensor& in) { return in.is_same(result); }))
      result = result.detach();
}

void expect_backward_to_all_leaves() {
  if (at::GradMode::is_enabled())
    throw usage_error(checkpointing, "a backward pass without create_graph", "one with it",
                      "the function itself where second derivatives are needed");
  if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid())
    throw usage_error(checkpointing, "backward() to all leaves",
                      "gradients of chosen tensors (torch::autograd::grad)",
                      "reading '.grad' after backward()");
}

variable_list as_leaves(const variable_list& saved, const AutogradContext& context) {
  variable_list leaves;
  for (std::size_t i = 0; i < saved.size(); ++i)
    leaves.push_back(saved[i].detach().requires_grad_(context.needs_input_grad(i)));
  return leaves;
}

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  /// `anchor` requires a gradient, so that the results do even if no input does.
  static variable_list forward(AutogradContext* context, const CheckpointedFunction& fn,
                               at::TensorList given, const at::Tensor& /*anchor*/) {
    const variable_list inputs = given.vec();
    const auto first = c10::make_intrusive<FirstRun>(fn, inputs);
    variable_list results = run(fn, inputs);
    first->results = text_of(results);
    detach_captured(results, inputs);
    context->set_materialize_grads(false);
    context->save_for_backward(inputs);
    context->saved_data["first run"] = c10::IValue::make_capsule(first);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    expect_backward_to_all_leaves();
    const variable_list leaves = as_leaves(context->get_saved_variables(), *context);
    const c10::IValue& saved = context->saved_data["first run"];
    run_backward(static_cast<const FirstRun&>(*saved.toCapsule()), leaves, gradients);
    variable_list result{at::Tensor()};  // of fn
    for (const at::Tensor& leaf : leaves) result.push_back(leaf.grad());
    result.emplace_back();  // of the anchor
    return result;
  }

 private:
  static void run_backward(const FirstRun& first, const variable_list& leaves,
                           const variable_list& gradients) {
    const variable_list results = run_again(first, leaves);
    variable_list roots, upstream;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!gradients[i].defined() || !results[i].requires_grad()) continue;
      roots.push_back(results[i]);
      upstream.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, upstream);
  }

  static variable_list run_again(const FirstRun& first, const variable_list& leaves) {
    const Keep present{RunState(leaves)};
    first.state.restore();
    std::optional<AcceleratedScope> accelerated;
    if (first.pass) accelerated.emplace(*first.pass);
    const at::AutoGradMode with_graph(true);
    variable_list results = run(first.fn, leaves);
    if (text_of(results) != first.results)
      throw runtime_error(checkpointing, "a second run like the first: " + first.results,
                          text_of(results), "a function that does the same each time it is run");
    return results;
  }
};

}  // namespace

std::vector<at::Tensor> checkpoint(CheckpointedFunction fn, const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& input : inputs)
    if (!input.defined())
      throw usage_error(checkpointing, "defined tensors as inputs", "an undefined one",
                        "leaving it out, or binding it into the function");
  if (!at::GradMode::is_enabled()) return fn(inputs);
  const at::Tensor anchor = at::empty({0}).requires_grad_(true);
  return Checkpoint::apply(fn, at::TensorList(inputs), anchor);
}

}  // namespace accrue
