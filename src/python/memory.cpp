#include <pybind11/stl.h>

#include <string>

#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

py::dict usage() {
  const memory::Usage now = memory::usage();
  py::dict fields;
  fields["live_bytes"] = now.live;
  fields["reserved_bytes"] = now.reserved;
  fields["resident_bytes"] = memory::resident_bytes();
  fields["peak_resident_bytes"] = memory::peak_resident_bytes();
  fields["budget_bytes"] = memory::budget();
  return fields;
}

void install(const std::string& budget) {
  if (!memory::caching_allocator_installed()) memory::install_caching_allocator();
  memory::set_budget(memory::resolve_budget(budget));
}

}  // namespace

void bind_memory(py::module_& module) {
  module.def("install_allocator", &install, py::arg("budget"));
  module.def("memory_usage", &usage);
  module.def("available_bytes", &memory::available_bytes);
}

}  // namespace accrue::python
