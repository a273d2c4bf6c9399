#include "python/callback.h"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "python/values.h"

namespace py = pybind11;

namespace accrue::python {

MaybeCallback callback_of(const py::object& function, const char* operation, const char* name) {
  if (function.is_none()) return std::nullopt;
  if (PyCallable_Check(function.ptr()) != 0) return Callback(function);
  throw usage_error(operation, std::string("a function as ") + name,
                    "a value of type " + type_of(function), "leaving it out, or a function");
}

std::vector<py::object*> held_by(std::initializer_list<MaybeCallback> callbacks) {
  std::vector<py::object*> held;
  for (const MaybeCallback& callback : callbacks)
    if (callback) held.push_back(callback->object());
  return held;
}

std::function<void(const Event&)> event_callback(const MaybeCallback& function) {
  if (!function) return {};
  return [tell = *function](const Event& event) { tell(event); };
}

accum::FindBatchNorms batch_norm_finder_of(const MaybeCallback& function) {
  if (!function) return {};
  return [find = *function] {
    return find.call(
        [](const py::object& names) { return names.cast<std::vector<std::string>>(); });
  };
}

}  // namespace accrue::python
