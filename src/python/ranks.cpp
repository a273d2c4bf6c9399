#include <pybind11/pybind11.h>

#include <chrono>
#include <memory>

#include "accrue/distributed/group.h"
#include "python/bindings.h"
#include "python/on_self.h"

namespace py = pybind11;

namespace accrue::python {

void bind_ranks(py::module_& module) {
  using distributed::Group;
  using WithoutInterpreter = py::call_guard<py::gil_scoped_release>;
  py::class_<Group, std::shared_ptr<Group>>(module, "Group", "The processes that train together.")
      .def_property_readonly("rank", [](const Group& group) { return group.rank(); })
      .def_property_readonly("world", [](const Group& group) { return group.world(); })
      .def("barrier", on_self(&Group::barrier), py::arg("what") = "a barrier", WithoutInterpreter())
      .def("fail", on_self(&Group::fail), py::arg("reason"), WithoutInterpreter(),
           "Informs the others why this rank ends; to be called before its process does.");
  module.def(
      "join",
      [](double timeout) {
        const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::duration<double>(timeout));
        return distributed::join({.timeout = time});
      },
      py::arg("timeout"), WithoutInterpreter());
}

}  // namespace accrue::python
