#include "train/window/exact/exact_pass.h"

#include <algorithm>
#include <cmath>

#include "accum/finite_sums.h"

namespace accrue::train {
namespace {

/// A sum in fp64 is finite if all terms are.
bool is_finite(const at::Tensor& tensor) {
  if (!tensor.defined()) return true;
  if (tensor.is_complex()) return is_finite(at::view_as_real(tensor.detach().resolve_conj()));
  if (!at::isFloatingType(tensor.scalar_type())) return true;
  return std::isfinite(tensor.detach().sum(at::kDouble).item<double>());
}

at::Tensor as_leaf(const at::Tensor& tensor) {
  const at::Tensor leaf = tensor.detach();
  const bool has_gradient = at::isFloatingType(leaf.scalar_type()) || leaf.is_complex();
  return has_gradient ? leaf.requires_grad_(true) : leaf;
}

PassOptions loss_options(const ExactOptions& options, double loss_scale) {
  PassOptions result;
  if (options.losses) result = options.losses();
  result.loss_scale = loss_scale;
  return result;
}

}  // namespace

ExactPass::ExactPass(models::Trainable& model, const accum::GradientBuffer& buffer,
                     double loss_scale, const ExactOptions& options,
                     const std::vector<ExactMicroBatch>& micro_batches, ActivationStore& store,
                     bool audit)
    : buffer_(buffer),
      options_(options),
      micro_batches_(micro_batches),
      store_(store),
      audit_(audit),
      segments_(model.segments()),
      losses_(model, loss_options(options, loss_scale)),
      cuts_(segments_.size()) {
  for (Cut& cut : cuts_) {
    cut.activations.resize(micro_batches_.size());
    cut.gradients.resize(micro_batches_.size());
  }
}

ExactPass::Outcome ExactPass::forward() {
  const at::NoGradGuard no_grad;
  for (std::size_t segment = 0; segment + 1 < segments_.size(); ++segment) {
    const Outcome outcome = run_forward(segment);
    if (outcome != Outcome::done) return outcome;
    take_statistics(segment + 1);
  }
  return Outcome::done;
}

ExactPass::Outcome ExactPass::run_forward(std::size_t segment) {
  for (std::size_t place = 0; place < micro_batches_.size(); ++place) {
    if (interrupted()) return Outcome::interrupted;
    const models::Activations output = run(segment, place, enter(segment, place));
    if (!std::ranges::all_of(output, is_finite))
      non_finite_.push_back(
          {place, "what '" + segments_[segment].name + "' makes of it is not finite"});
    for (const at::Tensor& tensor : output)
      cuts_[segment + 1].activations[place].push_back(store_.keep(tensor));
    step_done();
  }
  return agreed(!non_finite_.empty());
}

void ExactPass::take_statistics(std::size_t segment) {
  Cut& cut = cuts_[segment];
  for (const models::BatchNormSite& site : segments_[segment].batch_norms) {
    std::vector<Moments> moments;
    for (const auto& kept : cut.activations)
      moments.push_back(moments_of(kept.at(site.activation).tensor()));
    cut.statistics.push_back(combine(moments, site.layer, options_.all_reduce));
  }
}

batch::MicroBatch ExactPass::micro_of(std::size_t place) const {
  batch::MicroBatch micro = micro_batches_[place].micro;
  micro.inputs = micro_batches_[place].inputs.tensor();
  return micro;
}

ExactPass::Entrance ExactPass::enter(std::size_t segment, std::size_t place) const {
  const Cut& cut = cuts_[segment];
  const std::vector<models::BatchNormSite>& sites = segments_[segment].batch_norms;
  models::Activations values;
  for (const ActivationStore::Kept& kept : cut.activations[place]) values.push_back(kept.tensor());
  for (std::size_t i = 0; i < sites.size(); ++i) {
    at::Tensor& x = values[sites[i].activation];
    x = standardised(x, cut.statistics[i], sites[i].layer.eps);
  }
  Entrance entrance;
  for (const at::Tensor& value : values) entrance.leaves.push_back(as_leaf(value));
  entrance.read = entrance.leaves;
  for (const models::BatchNormSite& site : sites)
    entrance.read[site.activation] = affine(entrance.leaves[site.activation], site.layer);
  return entrance;
}

models::Activations ExactPass::run(std::size_t segment, std::size_t place,
                                   const Entrance& entrance) const {
  return segments_[segment].forward(entrance.read, micro_of(place), micro_batches_[place].context);
}

ExactPass::Outcome ExactPass::backward() {
  for (std::size_t segment = segments_.size(); segment-- > 0;) {
    const Outcome outcome = run_backward(segment);
    if (outcome != Outcome::done) return outcome;
  }
  return agreed(!audit_ && !sums_are_finite(buffer_));
}

ExactPass::Outcome ExactPass::run_backward(std::size_t segment) {
  Cut& cut = cuts_[segment];
  for (const WindowStatistics& statistics : cut.statistics)
    cut.sums.push_back({at::zeros_like(statistics.mean), at::zeros_like(statistics.mean)});
  const bool last = segment + 1 == segments_.size();
  for (std::size_t place = 0; place < micro_batches_.size(); ++place) {
    if (interrupted()) return Outcome::interrupted;
    const Entrance entrance = enter(segment, place);
    const models::Activations output = run(segment, place, entrance);
    const Seeds seeds =
        last ? seeds_of_loss(place, output) : seeds_from_next(segment, place, output);
    if (!seeds.roots.empty()) torch::autograd::backward(seeds.roots, seeds.gradients);
    keep_gradients(segment, place, entrance.leaves);
    if (audit_ && non_finite_.empty() && !sums_are_finite(buffer_))
      non_finite_.push_back(
          {place, "its gradient in '" + segments_[segment].name + "' is not finite"});
    step_done();
  }
  if (options_.all_reduce) {
    for (GradientSums& sums : cut.sums) {
      options_.all_reduce(sums.g);
      options_.all_reduce(sums.g_x_hat);
    }
  }
  return agreed(!non_finite_.empty());
}

ExactPass::Seeds ExactPass::seeds_of_loss(std::size_t place, const models::Activations& output) {
  const HeadLosses::Total total =
      losses_.total(output, micro_of(place), micro_batches_[place].context);
  if (!std::isfinite(total.sum)) {
    non_finite_.push_back({place, "its loss is not finite"});
    return {};
  }
  loss_sum_ += total.sum;
  weight_ += total.weight;
  heads_ += total.heads;
  return {total.roots, total.gradients};
}

ExactPass::Seeds ExactPass::seeds_from_next(std::size_t segment, std::size_t place,
                                            const models::Activations& output) {
  Cut& cut = cuts_[segment + 1];
  models::Activations gradients;
  for (const ActivationStore::Kept& kept : cut.gradients[place]) gradients.push_back(kept.tensor());
  const std::vector<models::BatchNormSite>& sites = segments_[segment + 1].batch_norms;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    at::Tensor& gradient = gradients[sites[i].activation];
    if (!gradient.defined()) continue;
    const at::Tensor x = cut.activations[place][sites[i].activation].tensor();
    const double eps = sites[i].layer.eps;
    gradient = input_gradient(gradient, standardised(x, cut.statistics[i], eps), cut.sums[i],
                              cut.statistics[i], eps);
  }
  cut.activations[place].clear();
  cut.gradients[place].clear();
  Seeds seeds;
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (!gradients[i].defined() || !output[i].requires_grad()) continue;
    seeds.roots.push_back(output[i]);
    seeds.gradients.push_back(gradients[i]);
  }
  return seeds;
}

void ExactPass::keep_gradients(std::size_t segment, std::size_t place,
                               const models::Activations& leaves) {
  Cut& cut = cuts_[segment];
  bool finite = true;
  for (const at::Tensor& leaf : leaves) {
    finite = finite && is_finite(leaf.grad());
    cut.gradients[place].push_back(store_.keep(leaf.grad()));
  }
  const std::vector<models::BatchNormSite>& sites = segments_[segment].batch_norms;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const at::Tensor& leaf = leaves[sites[i].activation];
    if (leaf.grad().defined()) cut.sums[i] += gradient_sums(leaf.grad(), leaf.detach());
  }
  if (!finite)
    non_finite_.push_back(
        {place, "the gradient behind '" + segments_[segment].name + "' is not finite"});
}

void ExactPass::step_done() {
  const auto per_micro_batch = static_cast<std::int64_t>(2 * segments_.size() - 1);
  ++steps_done_;
  if (options_.on_progress)
    options_.on_progress(steps_done_,
                         per_micro_batch * static_cast<std::int64_t>(micro_batches_.size()));
}

ExactPass::Outcome ExactPass::agreed(bool found) const {
  at::Tensor count = at::scalar_tensor(found ? 1.0 : 0.0, at::kDouble);
  if (options_.all_reduce) options_.all_reduce(count);
  return count.item<double>() > 0 ? Outcome::non_finite : Outcome::done;
}

void ExactPass::update_running_statistics() const {
  for (std::size_t segment = 0; segment < segments_.size(); ++segment)
    for (std::size_t i = 0; i < segments_[segment].batch_norms.size(); ++i)
      update_running(segments_[segment].batch_norms[i].layer, cuts_[segment].statistics[i]);
}

}  // namespace accrue::train
