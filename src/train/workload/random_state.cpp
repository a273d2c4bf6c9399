#include "train/workload/random_state.h"

#include <ATen/Context.h>

#include <mutex>
#include <set>

namespace accrue::train {

Generators::Generators(const std::vector<at::Tensor>& tensors) {
  std::set<at::Device, bool (*)(at::Device, at::Device)> devices(
      [](at::Device a, at::Device b) { return a.str() < b.str(); });
  devices.insert(at::kCPU);
  for (const at::Tensor& tensor : tensors) devices.insert(tensor.device());
  for (const at::Device& device : devices)
    generators_.push_back(at::globalContext().defaultGenerator(device));
}

Generators::State Generators::state() {
  State states;
  for (at::Generator& generator : generators_) {
    const std::lock_guard lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

void Generators::restore(const State& states) {
  for (std::size_t i = 0; i < generators_.size(); ++i) {
    const std::lock_guard lock(generators_[i].mutex());
    generators_[i].set_state(states[i]);
  }
}

}  // namespace accrue::train
