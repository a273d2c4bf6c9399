#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace accrue::train {

/// libtorch's random generators of the CPU and of the devices that tensors are on.
class Generators {
 public:
  explicit Generators(const std::vector<at::Tensor>& tensors);

  using State = std::vector<at::Tensor>;
  State state();
  void restore(const State& states);

 private:
  std::vector<at::Generator> generators_;
};

/// Puts the generators back to where they were.
class KeepGenerators {
 public:
  explicit KeepGenerators(Generators& generators)
      : generators_(generators), before_(generators.state()) {}
  ~KeepGenerators() { generators_.restore(before_); }
  KeepGenerators(const KeepGenerators&) = delete;
  KeepGenerators& operator=(const KeepGenerators&) = delete;

 private:
  Generators& generators_;
  Generators::State before_;
};

}  // namespace accrue::train
