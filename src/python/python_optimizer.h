#pragma once

#include <pybind11/pybind11.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>

#include "accrue/accum/mean_gradient.h"
#include "python/callback.h"

namespace accrue::python {

/// By how much gradients were clipped that an optimizer is about to see: it is told while it steps,
/// as its attribute `accrue_clipping`, so that accrue.watch() knows them as they were.
using Clipping = std::shared_ptr<double>;
/// What notes it.
std::function<void(accum::MeanGradient&)> note_clipping(Clipping clipping);
/// AccumulatorOptions or StepOptions, with that as their on_mean_gradient.
template <class Options>
Options with_noted(const Clipping& clipping, Options options) {
  options.on_mean_gradient = note_clipping(clipping);
  return options;
}

/// A torch.optim optimizer of Python as C++ code takes one: step() calls its step(). Its groups
/// have the same parameters, as they are when it is made.
class PythonOptimizer final : public torch::optim::Optimizer {
 public:
  PythonOptimizer(const pybind11::object& optimizer, Clipping clipping);
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  Callback step_;
  Clipping clipping_;
};

}  // namespace accrue::python
