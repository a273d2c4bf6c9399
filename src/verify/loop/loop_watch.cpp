#include "verify/loop/loop_watch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace accrue::proof {
namespace {

bool is_zero(const at::Tensor& tensor) {
  return !tensor.defined() || !tensor.detach().ne(0).any().item<bool>();
}

/// The pointer's type differs between versions of libtorch.
using Adder = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

/// Called before a gradient is added to a parameter's `.grad`, or returned to its caller.
class PreGradHook final : public torch::autograd::FunctionPreHook {
 public:
  explicit PreGradHook(std::function<void()> tell) : tell_(std::move(tell)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    tell_();
    return gradients;
  }

 private:
  std::function<void()> tell_;
};

/// Called when a gradient has been added to a parameter's `.grad`.
class Arrival final : public torch::autograd::FunctionPostHook {
 public:
  explicit Arrival(std::function<void()> tell) : tell_(std::move(tell)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    tell_();
    return outputs;
  }

 private:
  std::function<void()> tell_;
};

}  // namespace

struct LoopWatch::Impl {
  struct Watched {
    std::string name;
    at::Tensor parameter;
    at::Tensor at_first;  ///< its value
    std::int64_t backwards = 0;
    bool has_sum = false;
    const torch::autograd::FunctionPreHook* hook = nullptr;
    Adder adds;  ///< the node that adds to its `.grad`
    std::uintptr_t arrival = 0;
  };
  std::vector<Watched> watched;
  Seen stepped, zeroed;
  bool saw_sums = false;
  std::mutex mutex;  ///< backward may run on several threads

  void see(std::size_t index) {
    const std::lock_guard lock(mutex);
    Watched& w = watched[index];
    if (w.backwards == 0) {
      w.at_first = w.parameter.detach().clone();
    } else {
      if (stepped.before < 0 && !at::equal(w.parameter.detach(), w.at_first))
        stepped = {w.backwards, w.name};
      const bool gone = is_zero(w.parameter.grad());
      saw_sums = saw_sums || !gone;
      if (zeroed.before < 0 && w.has_sum && gone) zeroed = {w.backwards, w.name};
    }
    ++w.backwards;
  }
  /// Gradients that a loop takes elsewhere (torch::autograd::grad) do not arrive.
  void arrive(std::size_t index) {
    const std::lock_guard lock(mutex);
    Watched& w = watched[index];
    w.has_sum = w.has_sum || !is_zero(w.parameter.grad());
  }
};

LoopWatch::LoopWatch(const NamedParameters& parameters) : impl_(std::make_shared<Impl>()) {
  impl_->watched.reserve(parameters.size());
  for (const NamedParameter& parameter : parameters) {
    const std::size_t index = impl_->watched.size();
    impl_->watched.push_back({parameter.name, parameter.tensor, {}});
    Impl::Watched& watched = impl_->watched.back();
    // Tensor::register_hook() would clear the hooks that Python has registered.
    auto before = std::make_unique<PreGradHook>([impl = std::weak_ptr<Impl>(impl_), index] {
      if (const auto alive = impl.lock()) alive->see(index);
    });
    watched.hook = before.get();
    torch::autograd::impl::hooks(parameter.tensor).push_back(std::move(before));
    watched.adds = torch::autograd::impl::grad_accumulator(parameter.tensor);
    watched.arrival = watched.adds->add_post_hook(
        std::make_unique<Arrival>([impl = std::weak_ptr<Impl>(impl_), index] {
          if (const auto alive = impl.lock()) alive->arrive(index);
        }));
  }
}

LoopWatch::~LoopWatch() {
  for (const Impl::Watched& w : impl_->watched) {
    std::erase_if(torch::autograd::impl::hooks(w.parameter),
                  [&](const auto& hook) { return hook.get() == w.hook; });
    w.adds->del_post_hook(w.arrival);
  }
}

const LoopWatch::Seen& LoopWatch::stepped() const { return impl_->stepped; }
const LoopWatch::Seen& LoopWatch::zeroed() const { return impl_->zeroed; }
bool LoopWatch::saw_sums() const { return impl_->saw_sums; }
bool LoopWatch::saw_backward() const {
  return std::ranges::any_of(impl_->watched,
                             [](const Impl::Watched& w) { return w.backwards > 0; });
}

}  // namespace accrue::proof
