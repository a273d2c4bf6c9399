#pragma once

#include <pybind11/pybind11.h>

#include <vector>

namespace accrue::python {

/// Has Python's garbage collector see the objects that a bound C++ object holds, so that one that
/// refers to its holder (a callback that uses its Accumulator) is collected with it.
///
/// `Holder::held()` returns each reference that it owns once. One that was cleared is None.
template <class Holder>
pybind11::custom_type_setup seen_by_collector() {
  return pybind11::custom_type_setup([](PyHeapTypeObject* heap_type) {
    PyTypeObject& type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(self));
      if (!pybind11::detail::is_holder_constructed(self)) return 0;
      for (const pybind11::object* object : pybind11::cast<Holder&>(pybind11::handle(self)).held())
        Py_VISIT(object->ptr());
      return 0;
    };
    type.tp_clear = [](PyObject* self) {
      if (!pybind11::detail::is_holder_constructed(self)) return 0;
      for (pybind11::object* object : pybind11::cast<Holder&>(pybind11::handle(self)).held())
        *object = pybind11::none();
      return 0;
    };
  });
}

}  // namespace accrue::python
