#pragma once

#include <vector>

#include "windows.h"

namespace accrue::optim::testing {

/// One micro-batch: the gradient of each parameter's sum (or undefined), in registration order.
struct Micro {
  std::vector<at::Tensor> gradients;
  double weight = 1;
};

inline std::vector<Micro> random_micros(const NamedParameters& parameters, std::int64_t window,
                                        std::int64_t count) {
  std::vector<Micro> micros;
  for (std::int64_t k = 0; k < count; ++k) {
    Micro& micro = micros.emplace_back();
    micro.weight = static_cast<double>(1 + (k * 7 + window) % 5);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      micro.gradients.push_back(
          random_tensor(parameters[i].tensor.sizes(), parameters[i].tensor.scalar_type(),
                        static_cast<std::uint64_t>(10'000 * window + 100 * k) + i));
  }
  return micros;
}

inline double total_weight(const std::vector<Micro>& micros) {
  double total = 0;
  for (const Micro& micro : micros) total += micro.weight;
  return total;
}

/// Windows with contributions as kernels make them; folded into `optimizer`, or summed.
struct FedWindows {
  FedWindows(const NamedParameters& parameters, accum::FoldInto into)
      : buffer(std::make_shared<accum::GradientBuffer>(parameters, std::move(into))),
        window(buffer) {}
  explicit FedWindows(const NamedParameters& parameters)
      : buffer(std::make_shared<accum::GradientBuffer>(parameters)), window(buffer) {}

  void contribute(std::size_t index, const at::Tensor& gradient) {
    kernels::GradSlot& slot = *buffer->entries()[index].slot;
    const kernels::Contribution to = slot.contribute();
    to.add ? to.into.add_(gradient) : to.into.copy_(gradient);
    slot.done();
  }
  MicroStatus add(const Micro& micro) {
    const at::NoGradGuard no_grad;
    window.begin({.index = static_cast<std::int64_t>(window.ledger().entries.size())});
    for (std::size_t i = micro.gradients.size(); i-- > 0;)
      if (micro.gradients[i].defined()) contribute(i, micro.gradients[i]);
    return window.commit(0, micro.weight);
  }
  /// Runs a whole window, and the step after it.
  void run(Optimizer& optimizer, std::int64_t index, const std::vector<Micro>& micros, double lr) {
    window.open(index, 1, total_weight(micros));
    for (const Micro& micro : micros) add(micro);
    optimizer.step(std::move(window.close()).value(), lr);
  }

  std::shared_ptr<accum::GradientBuffer> buffer;
  accum::Window window;
};

inline std::unique_ptr<Optimizer> adama(const NamedParameters& parameters,
                                        const StateOptions& state = {}) {
  return make_adama(parameters, groups_of(parameters, kDecay), {}, state);
}
inline std::unique_ptr<Optimizer> folded_sgd(const NamedParameters& parameters,
                                             const StateOptions& state = {}) {
  return make_folded_sgd(parameters, groups_of(parameters, kDecay), {}, state);
}

/// Contiguous parameters, several chunks in one of them.
inline NamedParameters flat_parameters(at::ScalarType dtype) {
  NamedParameters parameters{{"matrix", random_tensor({7, 9}, dtype, 1)},
                             {"bias", random_tensor({37}, dtype, 2)},
                             {"large", random_tensor({3, 11'001}, dtype, 5)}};
  for (auto& [name, tensor] : parameters) tensor.requires_grad_(true);
  return parameters;
}

}  // namespace accrue::optim::testing
