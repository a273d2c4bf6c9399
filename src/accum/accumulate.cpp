#include "accrue/accum/accumulate.h"

#include <cmath>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"

namespace accrue {
namespace {

/// Puts `.grad` back as it was found.
class KeepGradients {
 public:
  explicit KeepGradients(const NamedParameters& parameters) : parameters_(parameters) {
    for (const NamedParameter& parameter : parameters_) grads_.push_back(parameter.tensor.grad());
  }
  ~KeepGradients() {
    for (std::size_t i = 0; i < grads_.size(); ++i)
      parameters_[i].tensor.mutable_grad() = grads_[i];
  }
  KeepGradients(const KeepGradients&) = delete;
  KeepGradients& operator=(const KeepGradients&) = delete;

 private:
  const NamedParameters& parameters_;
  std::vector<at::Tensor> grads_;
};

Loss finite(Loss loss, std::int64_t index) {
  if (loss.sum.defined() && loss.sum.numel() == 1 && !std::isfinite(loss.sum.item<double>()))
    throw usage_error(
        "accumulate", "finite losses",
        std::to_string(loss.sum.item<double>()) + " in micro-batch " + std::to_string(index),
        "an Accumulator, which can leave a micro-batch out");
  return loss;
}

}  // namespace

Accumulated accumulate(const NamedParameters& parameters, const NextLoss& next_loss) {
  const KeepGradients keep(parameters);
  Accumulator accumulator(parameters, {.check_finite = false});
  std::int64_t index = 0;
  while (std::optional<Loss> loss = next_loss()) accumulator.backward(finite(*loss, index++));

  Accumulated result;
  const auto& entries = accumulator.current_window().buffer()->entries();
  result.weight = accumulator.current_window().weight();
  result.loss_sum = accumulator.current_window().ledger().committed_loss_sum();
  const StepReport report =
      accumulator.finish([](accum::MeanGradient&& gradient) { gradient.materialize(); });
  for (const auto& entry : entries) {
    if (!report.stepped) entry.slot->main.zero_();
    result.gradients.push_back({entry.name, entry.slot->main});
  }
  return result;
}

}  // namespace accrue
