#include "python/python_optimizer.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "python/values.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

class NoOptions final : public torch::optim::OptimizerCloneableOptions<NoOptions> {};

Error no_optimizer(const std::string& received) {
  return usage_error("step", "a torch.optim optimizer, whose param_groups list tensors", received,
                     "torch.optim.AdamW(model.parameters())");
}

std::vector<at::Tensor> parameters_of(const py::handle group) {
  if (!py::isinstance<py::dict>(group) || !group.contains("params"))
    throw no_optimizer("a parameter group without 'params', of type " + type_of(group));
  const py::object listed = group["params"];
  if (!py::isinstance<py::sequence>(listed))
    throw no_optimizer("a parameter group whose 'params' is of type " + type_of(listed));
  std::vector<at::Tensor> parameters;
  for (const py::handle parameter : listed) {
    if (!THPVariable_Check(parameter.ptr()))
      throw no_optimizer("a parameter group with a value of type " + type_of(parameter));
    parameters.push_back(THPVariable_Unpack(parameter.ptr()));
  }
  return parameters;
}

std::vector<torch::optim::OptimizerParamGroup> groups_of(const py::object& optimizer) {
  if (!py::hasattr(optimizer, "param_groups") ||
      PyCallable_Check(py::getattr(optimizer, "step", py::none()).ptr()) == 0)
    throw no_optimizer("a value of type " + type_of(optimizer));
  const py::object listed = optimizer.attr("param_groups");
  if (!py::isinstance<py::sequence>(listed))
    throw no_optimizer("param_groups of type " + type_of(listed));
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const py::handle group : listed) groups.emplace_back(parameters_of(group));
  return groups;
}

/// Informs an optimizer of its clipping while it lives.
class ClippingScope {
 public:
  ClippingScope(const py::object& optimizer, double clipping) : optimizer_(optimizer) {
    optimizer_.attr("accrue_clipping") = clipping;
  }
  ~ClippingScope() { PyObject_DelAttrString(optimizer_.ptr(), "accrue_clipping"); }
  ClippingScope(const ClippingScope&) = delete;
  ClippingScope& operator=(const ClippingScope&) = delete;

 private:
  const py::object& optimizer_;
};

}  // namespace

PythonOptimizer::PythonOptimizer(const py::object& optimizer)
    : Optimizer(groups_of(optimizer), std::make_unique<NoOptions>()), optimizer_(optimizer) {}

at::Tensor PythonOptimizer::step(LossClosure /*closure*/) {
  optimizer_.with([this](const py::object& optimizer) {
    const ClippingScope told(optimizer, clipping_);
    optimizer.attr("step")();
  });
  return {};
}

}  // namespace accrue::python
