#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

#include <utility>

namespace accrue::kernels {

/// A plain value among the tensors that an operation saves for its backward.
template <class T>
struct SavedValue : torch::CustomClassHolder {
  explicit SavedValue(T held) : value(std::move(held)) {}
  T value;
};

template <class T>
c10::IValue to_saved(T value) {
  return c10::IValue::make_capsule(c10::make_intrusive<SavedValue<T>>(std::move(value)));
}

/// The value, valid as long as `saved`; T is the type that was saved.
template <class T>
const T& from_saved(const c10::IValue& saved) {
  return static_cast<const SavedValue<T>&>(*saved.toCapsule()).value;
}

}  // namespace accrue::kernels
