#include "train/step/loss_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "core/words.h"
#include "support/rounding.h"
#include "support/snapshot.h"

namespace accrue::train {
namespace {

constexpr std::int64_t kSamples = 4;

/// Allowed error of sums, besides the rounding of their dtype. The error of a mean or of a loss
/// over pairs is at least an order of magnitude larger than both together, also in bf16.
constexpr double kRounding = 1e-3;
constexpr double kRoundoffs = 4;  ///< of a sum, which is rounded a few times

struct Looked {
  double sum = 0, weight = 0;
  double rounding = kRounding;  ///< of the sum, relative
};

Looked look(const detail::RunSlice& run, std::int64_t begin, std::int64_t end) {
  const Loss loss = run(begin, end);
  return {loss.sum.item<double>(), loss.weight,
          kRounding + kRoundoffs * unit_roundoff(loss.sum.scalar_type())};
}

void require_additive(const char* operation, const char* what, double whole, double first,
                      double second, double rounding, std::int64_t samples,
                      const char* suggestion) {
  const double scale = std::abs(whole) + std::abs(first) + std::abs(second);
  if (std::abs(whole - (first + second)) <= rounding * scale) return;
  throw usage_error(std::string(operation) + " (loss_fn)",
                    std::string("a loss whose ") + what + " adds up over the samples",
                    std::to_string(whole) + " of " + counted(samples, "sample") + ", and " +
                        std::to_string(first) + " and " + std::to_string(second) +
                        " of their halves",
                    suggestion);
}

/// Restores changed parameters, and names one.
void require_untouched(const char* operation, const NamedParameters& parameters,
                       const std::vector<at::Tensor>& before) {
  std::string changed;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor value = parameters[i].tensor.detach();
    if (at::equal(value, before[i]) || value.isnan().any().item<bool>()) continue;
    if (changed.empty()) changed = parameters[i].name;
    value.copy_(before[i]);
  }
  if (changed.empty()) return;
  throw usage_error(std::string(operation) + " (loss_fn)",
                    "a forward pass that leaves the parameters as they are",
                    "one that changed '" + changed + "', which is as before now",
                    "changing parameters between steps, or keeping such state in buffers");
}

}  // namespace

void check_loss_function(const char* operation, const detail::SteppedModel& model,
                         const detail::RunSlice& run, std::int64_t samples) {
  const std::vector<at::Tensor> parameters = detail::tensors_of(model.parameters);
  const Keep generators{GeneratorSnapshot(devices_of(parameters))};
  const Keep buffers{TensorSnapshot(model.buffers)};
  std::vector<at::Tensor> before;
  for (const at::Tensor& parameter : parameters) before.push_back(parameter.detach().clone());
  const at::NoGradGuard no_graph;
  const bool takes_statistics = model.batch_norms && !model.batch_norms().empty();
  const std::int64_t looked_at = std::min(samples, kSamples), half = looked_at / 2;
  const Looked whole = look(run, 0, looked_at);
  require_untouched(operation, model.parameters, before);
  if (half == 0 || (takes_statistics && looked_at < kSamples)) return;
  const Looked first = look(run, 0, half), second = look(run, half, looked_at);
  require_additive(operation, "weight", whole.weight, first.weight, second.weight, kRounding,
                   looked_at,
                   "Loss{sum of the terms, how many terms there are}; of a mean over n terms, "
                   "Loss{mean * n, n}");
  const bool repeats =
      std::abs(look(run, 0, looked_at).sum - whole.sum) <= whole.rounding * std::abs(whole.sum);
  if (takes_statistics || !repeats || !std::isfinite(whole.sum)) return;
  require_additive(operation, "sum", whole.sum, first.sum, second.sum, whole.rounding, looked_at,
                   "the sum of the terms in place of their mean (reduction = sum); of a loss that "
                   "compares the samples of a batch, accrue::coupled_step");
}

}  // namespace accrue::train
