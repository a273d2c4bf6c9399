#include "models/foreign/own_losses.h"

#include <ATen/ATen.h>

#include <cmath>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

void check(const Loss& loss, const std::string& owner) {
  const auto refuse = [&](const std::string& received, const std::string& suggestion) {
    throw usage_error("loss of " + owner,
                      "accrue::Loss{sum, weight}: a scalar that floats and the number of its terms",
                      received, suggestion);
  };
  if (!loss.sum.defined()) refuse("no sum", "the sum of the loss's terms");
  if (loss.sum.numel() != 1 || loss.sum.dim() > 1 || !at::isFloatingType(loss.sum.scalar_type()))
    refuse(c10::str("a tensor ", loss.sum.scalar_type(), ' ', loss.sum.sizes()),
           "sum() of it, and how many terms there were");
  if (!(loss.weight >= 0) || !std::isfinite(loss.weight))
    refuse("a weight of " + std::to_string(loss.weight), "how many terms the sum has");
}

}  // namespace

Activations activations_of(const std::vector<Loss>& losses, const std::string& owner) {
  Activations activations;
  for (const Loss& loss : losses) {
    check(loss, owner);
    activations.push_back(loss.sum);
    activations.push_back(at::scalar_tensor(loss.weight, at::kDouble));
  }
  return activations;
}

std::vector<LossHead> heads_of_own_losses(const std::vector<NamedLoss>& named) {
  std::vector<LossHead> heads;
  for (std::size_t i = 0; i < named.size(); ++i)
    heads.push_back({.name = named[i].name,
                     .forward =
                         [i](const Activations& output, const batch::MicroBatch&,
                             const ForwardContext&, double) {
                           return Loss{.sum = output.at(2 * i),
                                       .weight = output.at(2 * i + 1).item<double>()};
                         },
                     .weight = named[i].weight,
                     .coefficient = named[i].coefficient});
  return heads;
}

}  // namespace accrue::models
