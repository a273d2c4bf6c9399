#pragma once

#include <utility>

namespace accrue::python {

/// A member function as pybind11 is to call it: with an object, where a pointer might be None.
template <class Class, class Answer, class... Arguments>
auto on_self(Answer (Class::*function)(Arguments...)) {
  return [function](Class& self, Arguments... arguments) -> Answer {
    return (self.*function)(std::forward<Arguments>(arguments)...);
  };
}
template <class Class, class Answer, class... Arguments>
auto on_self(Answer (Class::*function)(Arguments...) const) {
  return [function](const Class& self, Arguments... arguments) -> Answer {
    return (self.*function)(std::forward<Arguments>(arguments)...);
  };
}

}  // namespace accrue::python
