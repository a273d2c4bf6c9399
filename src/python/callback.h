#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accrue/accum/batch_norms.h"
#include "accrue/core/observer.h"

namespace accrue::python {

/// KeyboardInterrupt, SystemExit and the like, on their way through C++ code. No std::exception.
struct Ended {
  pybind11::error_already_set error;
};

/// Throws `error` on as C++ code knows it: memory that ran out as c10's OutOfMemoryError, so that
/// it can be undone and split, all else as it is. The interpreter is held.
[[noreturn]] void rethrow(pybind11::error_already_set& error);

/// A Python function that C++ code calls which has let go of the interpreter. Copies share it; the
/// last one may be destroyed on any thread.
class Callback {
 public:
  explicit Callback(pybind11::object function)
      : function_(new pybind11::object(std::move(function)), &let_go) {}

  /// Calls it, and returns what `read` makes of its answer. Its exceptions are thrown (rethrow()).
  template <class Read, class... Arguments>
  auto call(Read read, const Arguments&... arguments) const {
    return with([&](const pybind11::object& function) { return read(function(arguments...)); });
  }
  /// Lets `use` have the object, with the interpreter held. Its exceptions are thrown.
  template <class Use>
  auto with(Use use) const {
    const pybind11::gil_scoped_acquire held;
    try {
      return use(*function_);
    } catch (pybind11::error_already_set& error) {
      rethrow(error);
    }
  }
  /// Calls it for what it does.
  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    call([](const pybind11::object&) {}, arguments...);
  }

  /// The Python function, which all copies share: see held.h.
  pybind11::object* object() const { return function_.get(); }

 private:
  static void let_go(pybind11::object* function) {
    const pybind11::gil_scoped_acquire held;
    delete function;
  }

  std::shared_ptr<pybind11::object> function_;
};

/// Functions that an object was made with, as they are held: nothing of those that are None.
using MaybeCallback = std::optional<Callback>;
/// Throws a usage Error of `operation` where `function` is neither None nor can be called.
MaybeCallback callback_of(const pybind11::object& function, const char* operation,
                          const char* name);
/// The objects that callbacks hold.
std::vector<pybind11::object*> held_by(std::initializer_list<MaybeCallback> callbacks);

/// Passes events to Python; null if there is no function.
std::function<void(const Event&)> event_callback(const MaybeCallback& function);
/// Names of batch normalisations that Python finds; null if there is none.
accum::FindBatchNorms batch_norm_finder_of(const MaybeCallback& function);

}  // namespace accrue::python
