#include "python/callback.h"

#include <pybind11/stl.h>

#include <string>
#include <vector>

namespace py = pybind11;

namespace accrue::python {

std::function<void(const Event&)> teller_of(const py::object& function) {
  if (function.is_none()) return {};
  return [tell = Callback(function)](const Event& event) { tell(event); };
}

accum::FindBatchNorms batch_norm_finder_of(const py::object& function) {
  if (function.is_none()) return {};
  return [find = Callback(function)] {
    return find.call(
        [](const py::object& names) { return names.cast<std::vector<std::string>>(); });
  };
}

}  // namespace accrue::python
