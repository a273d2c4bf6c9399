#include "train/pass/head_losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "accrue/core/error.h"
#include "kernels/backend.h"

namespace accrue::train {
namespace {

bool shares_memory(const models::Activations& output, const at::Tensor& inputs) {
  return std::any_of(output.begin(), output.end(), [&](const at::Tensor& tensor) {
    return tensor.defined() && inputs.defined() && tensor.is_alias_of(inputs);
  });
}

}  // namespace

HeadLosses::HeadLosses(models::Trainable& model, PassOptions options)
    : heads_(model.losses()), options_(std::move(options)) {
  if (!options_.factors.empty() && options_.factors.size() != heads_.size())
    throw usage_error("sum losses of a micro-batch",
                      std::to_string(heads_.size()) + " factors, one for each loss",
                      std::to_string(options_.factors.size()), "LossTotals of all losses");
}

HeadLosses::Total HeadLosses::total(const models::Activations& output,
                                    const batch::MicroBatch& micro,
                                    const ForwardContext& context) const {
  Total total;
  std::optional<double> first_weight;
  ForwardContext of_head = context;
  // The backward pass of another loss may need the output; a view of the inputs is the caller's.
  of_head.last_reader = losses_run() == 1 && !shares_memory(output, micro.inputs);
  std::vector<at::Tensor> unread;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const double factor = factor_of(i);
    if (factor == 0) {
      total.heads.sums.push_back(0);
      total.heads.weights.push_back(heads_[i].weight ? heads_[i].weight(micro) : 0);
      total.heads.measures.resize(total.heads.measures.size() + heads_[i].measures.size(), 0);
      continue;
    }
    const double gradient = factor * options_.loss_scale * options_.weighting;
    of_head.upstream = gradient;
    const Loss loss = heads_[i].forward(output, micro, of_head, gradient);
    if (!first_weight) first_weight = loss.weight;
    expect_one_denominator(heads_[i], loss.weight, *first_weight);
    const bool is_unread =
        options_.leave_losses_on_device && !kernels::passes_over_memory(loss.sum);
    const double sum = is_unread ? 0 : loss.sum.item<double>();
    if (is_unread) unread.push_back(loss.sum.detach().to(at::kDouble));
    total.heads.sums.push_back(sum);
    total.heads.weights.push_back(loss.weight);
    total.heads.measures.insert(total.heads.measures.end(), loss.measures.begin(),
                                loss.measures.end());
    total.sum += factor * sum;
    if (!loss.sum.requires_grad()) continue;
    total.roots.push_back(loss.sum);
    total.gradients.push_back(at::full_like(loss.sum.detach(), gradient));
  }
  if (!unread.empty()) total.unread = at::stack(unread);
  total.weight = options_.factors.empty() ? first_weight.value_or(0)
                                          : total.heads.weights.at(options_.reference);
  return total;
}

double HeadLosses::fill_in(const at::Tensor& read, HeadSums& heads) const {
  double sum = 0;
  std::int64_t place = 0;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const double factor = factor_of(i);
    if (factor == 0) continue;
    heads.sums[i] = read[place++].item<double>();
    sum += factor * heads.sums[i];
  }
  return sum;
}

double HeadLosses::factor_of(std::size_t head) const {
  return options_.factors.empty() ? heads_[head].coefficient : options_.factors[head];
}

std::size_t HeadLosses::losses_run() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < heads_.size(); ++i) count += factor_of(i) != 0 ? 1 : 0;
  return count;
}

void HeadLosses::expect_one_denominator(const models::LossHead& head, double weight,
                                        double first) const {
  if (!options_.factors.empty() || weight == first) return;
  throw usage_error("sum losses of a micro-batch", "losses with one denominator",
                    "weights " + std::to_string(first) + " and " + std::to_string(weight) + " (" +
                        head.name + ")",
                    "LossHead::weight for every loss, so that their total weights are known "
                    "before the first backward");
}

}  // namespace accrue::train
