#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "accrue/core/parameter.h"

namespace accrue {

/// Values of tensors at a moment, to restore them when later changes must not count.
class TensorSnapshot {
 public:
  TensorSnapshot() = default;
  /// Keeps the current values; undefined tensors are left out.
  explicit TensorSnapshot(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) add(tensor);
  }
  explicit TensorSnapshot(const NamedParameters& tensors) {
    for (const NamedParameter& item : tensors) add(item.tensor);
  }

  /// Keeps the current values.
  void keep() {
    const at::NoGradGuard no_grad;
    for (Kept& kept : kept_) kept.value.copy_(kept.tensor);
  }
  void restore() const {
    const at::NoGradGuard no_grad;
    for (const Kept& kept : kept_) kept.tensor.copy_(kept.value);
  }
  /// Writes only if a tensor changed, so that autograd sees no change of the others.
  void restore_moved() const {
    const at::NoGradGuard no_grad;
    for (const Kept& kept : kept_)
      if (kept.moved()) kept.tensor.copy_(kept.value);
  }
  /// Restores without autograd noticing: a graph that has saved a tensor stays valid.
  void restore_unseen() const {
    const at::NoGradGuard no_grad;
    for (const Kept& kept : kept_) kept.tensor.variable_data().copy_(kept.value);
  }
  bool moved() const { return std::ranges::any_of(kept_, &Kept::moved); }

 private:
  struct Kept {
    at::Tensor tensor, value;
    bool moved() const { return !at::equal(tensor.detach(), value); }
  };

  void add(const at::Tensor& tensor) {
    if (tensor.defined()) kept_.push_back({tensor, tensor.detach().clone()});
  }

  std::vector<Kept> kept_;
};

/// The tensors that the parameters have as `.grad`; their values are not kept.
class GradSnapshot {
 public:
  explicit GradSnapshot(const NamedParameters& parameters) {
    for (const NamedParameter& parameter : parameters)
      kept_.emplace_back(parameter.tensor, parameter.tensor.grad());
  }
  void restore() const {
    for (const auto& [parameter, grad] : kept_) parameter.mutable_grad() = grad;
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

/// The states of libtorch's random generators of some devices, each named once. A device whose
/// backend has no generator is left out: its random numbers come from the CPU's.
class GeneratorSnapshot {
 public:
  explicit GeneratorSnapshot(const std::vector<at::Device>& devices = {at::kCPU}) {
    for (const at::Device& device : devices) {
      at::Generator generator = generator_of(device);
      if (!generator.defined()) continue;
      const std::lock_guard<std::mutex> lock(generator.mutex());
      kept_.emplace_back(generator, generator.get_state());
    }
  }
  void restore() const {
    for (auto [generator, state] : kept_) {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  static at::Generator generator_of(const at::Device& device) {
    try {
      return at::globalContext().defaultGenerator(device);
    } catch (const c10::Error&) {
      return {};
    }
  }

  std::vector<std::pair<at::Generator, at::Tensor>> kept_;
};

/// The CPU and all devices of the tensors, each once.
inline std::vector<at::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Device> devices{at::kCPU};
  for (const at::Tensor& tensor : tensors)
    if (std::ranges::find(devices, tensor.device()) == devices.end())
      devices.push_back(tensor.device());
  return devices;
}

/// Restores a snapshot when it ends.
template <class Snapshot>
class Keep {
 public:
  explicit Keep(Snapshot snapshot) : snapshot_(std::move(snapshot)) {}
  ~Keep() { snapshot_.restore(); }
  Keep(const Keep&) = delete;
  Keep& operator=(const Keep&) = delete;
  const Snapshot& snapshot() const { return snapshot_; }

 private:
  Snapshot snapshot_;
};

}  // namespace accrue
