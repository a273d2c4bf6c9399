#include "python/python_optimizer.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

class NoOptions final : public torch::optim::OptimizerCloneableOptions<NoOptions> {};

std::vector<torch::optim::OptimizerParamGroup> groups_of(const py::object& optimizer) {
  if (!py::hasattr(optimizer, "param_groups") || !py::hasattr(optimizer, "step"))
    throw usage_error("step", "a torch.optim optimizer",
                      std::string(py::str(py::type::handle_of(optimizer).attr("__name__"))),
                      "torch.optim.AdamW(model.parameters())");
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const py::handle group : optimizer.attr("param_groups")) {
    std::vector<at::Tensor> parameters;
    for (const py::handle parameter : group["params"])
      parameters.push_back(THPVariable_Unpack(parameter.ptr()));
    groups.emplace_back(parameters);
  }
  return groups;
}

/// Steps an optimizer that is told of `clipping` meanwhile.
py::cpp_function step_of(const py::object& optimizer) {
  return [optimizer](double clipping) {
    optimizer.attr("accrue_clipping") = clipping;
    struct Forget {
      const py::object& of;
      ~Forget() { PyObject_DelAttrString(of.ptr(), "accrue_clipping"); }
    };
    const Forget forget{optimizer};
    optimizer.attr("step")();
  };
}

}  // namespace

std::function<void(accum::MeanGradient&)> note_clipping(Clipping clipping) {
  return [clipping = std::move(clipping)](accum::MeanGradient& gradient) {
    *clipping = gradient.clipping();
  };
}

PythonOptimizer::PythonOptimizer(const py::object& optimizer, Clipping clipping)
    : Optimizer(groups_of(optimizer), std::make_unique<NoOptions>()),
      step_(step_of(optimizer)),
      clipping_(std::move(clipping)) {}

at::Tensor PythonOptimizer::step(LossClosure /*closure*/) {
  step_(*clipping_);
  return {};
}

}  // namespace accrue::python
