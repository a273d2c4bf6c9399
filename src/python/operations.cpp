#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>

#include "accrue/core/loss.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/linear.h"
#include "accrue/kernels/prepared_weight.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

using WithoutInterpreter = py::call_guard<py::gil_scoped_release>;
using Optional = std::optional<at::Tensor>;

Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, kernels::PreparedWeight& prepared,
                          const Optional& bias, const Optional& row_weights, std::int64_t ignored,
                          double label_smoothing, double z_loss, double soft_cap) {
  return kernels::linear_cross_entropy(hidden, weight, targets, prepared,
                                       {.loss = {.row_weights = row_weights.value_or(at::Tensor()),
                                                 .ignored = ignored,
                                                 .label_smoothing = label_smoothing,
                                                 .z_loss = z_loss,
                                                 .soft_cap = soft_cap},
                                        .bias = bias.value_or(at::Tensor())});
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const Optional& bias,
                  kernels::PreparedWeight& prepared) {
  return kernels::linear(x, weight, bias.value_or(at::Tensor()), prepared);
}

}  // namespace

void bind_operations(py::module_& module) {
  py::class_<kernels::PreparedWeight>(
      module, "PreparedWeight",
      "The forms of a weight that products need, made when it has changed.")
      .def(py::init<>());
  module.def("linear_cross_entropy", &linear_cross_entropy, WithoutInterpreter(), py::arg("hidden"),
             py::arg("weight"), py::arg("targets"), py::arg("prepared"), py::kw_only(),
             py::arg("bias"), py::arg("row_weights"), py::arg("ignore_index"),
             py::arg("label_smoothing"), py::arg("z_loss"), py::arg("soft_cap"));
  module.def("linear", &linear, WithoutInterpreter(), py::arg("x"), py::arg("weight"),
             py::arg("bias"), py::arg("prepared"));
}

}  // namespace accrue::python
