#include "train/window/layered/layered_pass.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "accum/finite_sums.h"
#include "train/window/layered/graph_leaves.h"

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

PassOptions loss_options(const LayeredOptions& options, double loss_scale) {
  PassOptions result;
  if (options.losses) result = options.losses();
  result.loss_scale = loss_scale;
  return result;
}

/// The trained leaves behind `roots`, besides those of the segment's entrance.
std::vector<at::Tensor> parameters_behind(const std::vector<at::Tensor>& roots,
                                          const models::Activations& entrance) {
  std::vector<at::Tensor> parameters = trained_leaves(roots);
  std::erase_if(parameters, [&](const at::Tensor& leaf) {
    return std::ranges::any_of(entrance,
                               [&](const at::Tensor& input) { return input.is_same(leaf); });
  });
  return parameters;
}

}  // namespace

LayeredPass::LayeredPass(models::Trainable& model, const accum::GradientBuffer& buffer,
                         double loss_scale, const LayeredOptions& options,
                         const std::vector<LayeredMicroBatch>& micro_batches,
                         ActivationStore& store, bool audit)
    : buffer_(buffer),
      options_(options),
      micro_batches_(micro_batches),
      store_(store),
      audit_(audit),
      segments_(model.segments()),
      losses_(model, loss_options(options, loss_scale)),
      cuts_(segments_.size()) {
  for (std::size_t segment = 0; segment < segments_.size(); ++segment) {
    Cut& cut = cuts_[segment];
    cut.activations.resize(micro_batches_.size());
    cut.gradients.resize(micro_batches_.size());
    if (options_.window_statistics) cut.statistics = CutStatistics(segments_[segment].batch_norms);
  }
}

LayeredPass::Outcome LayeredPass::forward() {
  const at::NoGradGuard no_grad;
  for (std::size_t segment = 0; segment + 1 < segments_.size(); ++segment) {
    const Outcome outcome = run_forward(segment);
    if (outcome != Outcome::done) return outcome;
    Cut& cut = cuts_[segment + 1];
    cut.statistics.take(cut.activations, options_.all_reduce);
  }
  return Outcome::done;
}

LayeredPass::Outcome LayeredPass::run_forward(std::size_t segment) {
  RECORD_USER_SCOPE("segment: forward");
  announce(segment, /*backward=*/false);
  const bool is_checked = checks(cuts_[segment + 1]);
  for (std::size_t place = 0; place < micro_batches_.size(); ++place) {
    if (interrupted()) return Outcome::interrupted;
    const models::Activations output =
        run(segment, place, enter(segment, place), micro_batches_[place].context);
    if (is_checked && !std::ranges::all_of(output, is_finite))
      non_finite_.push_back(
          {place, "what '" + segments_[segment].name + "' makes of it is not finite"});
    for (const at::Tensor& tensor : output)
      cuts_[segment + 1].activations[place].push_back(store_.keep(tensor));
    step_done();
  }
  return agreed(!non_finite_.empty());
}

/// A value that is not finite would spread over the window by the statistics. Without them it stays
/// in its micro-batch, whose loss or gradient shows it without a look at each activation; an
/// activation alone may be infinite, such as a mask.
bool LayeredPass::checks(const Cut& cut) { return !cut.statistics.empty(); }

void LayeredPass::announce(std::size_t segment, bool backward) const {
  if (!options_.before_segment) return;
  SegmentVisit visit{.segment = segment, .backward = backward};
  if (!backward) {
    visit.next = segment + 1;
    visit.next_backward = segment + 2 == segments_.size();
  } else if (segment > 0) {
    visit.next = segment - 1;
    visit.next_backward = true;
  }
  options_.before_segment(visit);
}

batch::MicroBatch LayeredPass::micro_of(std::size_t place) const {
  batch::MicroBatch micro = micro_batches_[place].micro;
  micro.inputs = micro_batches_[place].inputs.tensor();
  return micro;
}

LayeredPass::Entrance LayeredPass::enter(std::size_t segment, std::size_t place) const {
  const Cut& cut = cuts_[segment];
  models::Activations values;
  for (const ActivationStore::Kept& kept : cut.activations[place]) values.push_back(kept.tensor());
  cut.statistics.standardise(values);
  Entrance entrance;
  for (const at::Tensor& value : values) entrance.leaves.push_back(as_leaf(value));
  entrance.read = entrance.leaves;
  cut.statistics.apply_affine(entrance.read);
  return entrance;
}

models::Activations LayeredPass::run(std::size_t segment, std::size_t place,
                                     const Entrance& entrance,
                                     const ForwardContext& context) const {
  const models::Segment& link = segments_[segment];
  // The entrance has been normalised.
  if (options_.window_statistics) return link.forward(entrance.read, micro_of(place), context);
  return models::run_segment(link, entrance.read, micro_of(place), context);
}

/// The last segment runs forward only before its backward; the others run for the second time, for
/// their graph alone.
ForwardContext LayeredPass::context_in_backward(std::size_t segment, std::size_t place) const {
  ForwardContext context = micro_batches_[place].context;
  const bool is_second_run = segment + 1 < segments_.size();
  context.rerun = is_second_run;
  context.result_unread = is_second_run;
  return context;
}

LayeredPass::Outcome LayeredPass::backward() {
  for (std::size_t segment = segments_.size(); segment-- > 0;) {
    const Outcome outcome = run_backward(segment);
    if (outcome != Outcome::done) return outcome;
  }
  const Outcome outcome = agreed(!audit_ && !options_.sums_are_finite && !sums_are_finite(buffer_));
  return outcome == Outcome::done ? agreed_units() : outcome;
}

/// Ranks that share the window run the passes again together. A process that is alone enlarges its
/// units when the window commits, and runs them again by itself.
LayeredPass::Outcome LayeredPass::agreed_units() const {
  if (!options_.all_reduce || buffer_.accumulation() != accum::Accumulation::fixed)
    return Outcome::done;
  const bool found = std::ranges::any_of(
      buffer_.entries(), [](const auto& entry) { return entry.slot->found_too_large; });
  return agreed(found, Outcome::too_large);
}

bool LayeredPass::sums_found_finite(std::size_t segment) const {
  return options_.sums_are_finite ? options_.sums_are_finite(segment) : sums_are_finite(buffer_);
}

LayeredPass::Outcome LayeredPass::run_backward(std::size_t segment) {
  RECORD_USER_SCOPE("segment: backward");
  announce(segment, /*backward=*/true);
  Cut& cut = cuts_[segment];
  cut.statistics.clear_gradient_sums();
  const bool last = segment + 1 == segments_.size();
  for (std::size_t place = 0; place < micro_batches_.size(); ++place) {
    if (interrupted()) return Outcome::interrupted;
    const Entrance entrance = enter(segment, place);
    const models::Activations output =
        run(segment, place, entrance, context_in_backward(segment, place));
    const Seeds seeds =
        last ? seeds_of_loss(place, output) : seeds_from_next(segment, place, output);
    if (place == 0 && options_.on_parameters && !seeds.roots.empty())
      options_.on_parameters(segment, parameters_behind(seeds.roots, entrance.leaves));
    if (!seeds.roots.empty()) torch::autograd::backward(seeds.roots, seeds.gradients);
    keep_gradients(segment, place, entrance.leaves);
    if (audit_ && non_finite_.empty() && !sums_found_finite(segment))
      non_finite_.push_back(
          {place, "its gradient in '" + segments_[segment].name + "' is not finite"});
    step_done();
  }
  cut.statistics.reduce_gradient_sums(options_.all_reduce);
  const bool has_bad_sums = !audit_ && options_.sums_are_finite && !sums_found_finite(segment);
  const Outcome outcome = agreed(!non_finite_.empty() || has_bad_sums);
  if (outcome == Outcome::done && options_.take_sums) options_.take_sums(segment);
  return outcome;
}

LayeredPass::Seeds LayeredPass::seeds_of_loss(std::size_t place,
                                              const models::Activations& output) {
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

LayeredPass::Seeds LayeredPass::seeds_from_next(std::size_t segment, std::size_t place,
                                                const models::Activations& output) {
  Cut& cut = cuts_[segment + 1];
  models::Activations gradients;
  for (const ActivationStore::Kept& kept : cut.gradients[place]) gradients.push_back(kept.tensor());
  cut.statistics.correct(gradients, cut.activations[place]);
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

void LayeredPass::keep_gradients(std::size_t segment, std::size_t place,
                                 const models::Activations& leaves) {
  Cut& cut = cuts_[segment];
  const bool is_checked = checks(cut);
  bool finite = true;
  for (const at::Tensor& leaf : leaves) {
    finite = finite && (!is_checked || is_finite(leaf.grad()));
    cut.gradients[place].push_back(store_.keep(leaf.grad()));
  }
  cut.statistics.add_gradients(leaves);
  // The correction of gradients reads the activations once more.
  if (cut.statistics.empty()) cut.activations[place].clear();
  if (!finite)
    non_finite_.push_back(
        {place, "the gradient behind '" + segments_[segment].name + "' is not finite"});
}

void LayeredPass::step_done() {
  const auto per_micro_batch = static_cast<std::int64_t>(2 * segments_.size() - 1);
  ++steps_done_;
  if (options_.on_progress)
    options_.on_progress(steps_done_,
                         per_micro_batch * static_cast<std::int64_t>(micro_batches_.size()));
}

LayeredPass::Outcome LayeredPass::agreed(bool found, Outcome outcome) const {
  at::Tensor count = at::scalar_tensor(found ? 1.0 : 0.0, at::kDouble);
  if (options_.all_reduce) options_.all_reduce(count);
  return count.item<double>() > 0 ? outcome : Outcome::done;
}

void LayeredPass::update_running_statistics() const {
  for (const Cut& cut : cuts_) cut.statistics.update_running_statistics();
}

}  // namespace accrue::train
