#include "accrue/kernels/accelerate.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <utility>

#include "python/bindings.h"
#include "python/on_self.h"
#include "python/values.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

py::dict by_kind_of(const AcceleratedCalls& calls) {
  py::dict by_kind;
  by_kind["products"] = calls.products;
  by_kind["convolutions"] = calls.convolutions;
  by_kind["embeddings"] = calls.embeddings;
  by_kind["layer_norms"] = calls.layer_norms;
  by_kind["gelus"] = calls.gelus;
  by_kind["attentions"] = calls.attentions;
  by_kind["dropouts"] = calls.dropouts;
  return by_kind;
}

}  // namespace

void bind_accelerate(py::module_& module) {
  py::class_<Accelerated>(module, "Accelerated")
      .def(py::init([](const Named& parameters, std::optional<std::uint64_t> seed) {
             return std::make_unique<Accelerated>(named_parameters_of(parameters),
                                                  AccelerateOptions{.seed = seed});
           }),
           py::arg("parameters"), py::arg("seed"))
      .def("begin", on_self(&Accelerated::begin), py::arg("sample_ids"), py::arg("window"))
      .def("calls", [](const Accelerated& accelerated) { return by_kind_of(accelerated.calls()); });
}

}  // namespace accrue::python
