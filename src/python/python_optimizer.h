#pragma once

#include <pybind11/pybind11.h>
#include <torch/optim/optimizer.h>

#include "accum/torch_step.h"
#include "python/callback.h"

namespace accrue::python {

/// A torch.optim optimizer of Python as C++ code takes one: step() calls its step(). Its groups
/// have the same parameters, as they are when it is made.
///
/// While it steps it has the factor by which the gradient was clipped, as its attribute
/// `accrue_clipping`, so that accrue.watch() knows gradients as they were.
class PythonOptimizer final : public torch::optim::Optimizer, public accum::ClippingListener {
 public:
  explicit PythonOptimizer(const pybind11::object& optimizer);
  at::Tensor step(LossClosure closure = nullptr) override;
  void see_clipping(double clipping) override { clipping_ = clipping; }
  const Callback& held() const { return optimizer_; }

 private:
  Callback optimizer_;
  double clipping_ = 1;
};

}  // namespace accrue::python
