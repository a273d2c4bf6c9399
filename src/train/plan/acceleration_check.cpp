#include "train/plan/acceleration_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "core/cause.h"
#include "core/words.h"
#include "data/loader.h"
#include "kernels/operations.h"
#include "kernels/plain/plain_operations.h"
#include "memory/out_of_memory.h"
#include "models/layers/compute_dtypes.h"
#include "support/rounding.h"
#include "train/pass/buffer_snapshot.h"
#include "train/pass/run_micro_batch.h"

namespace accrue::train {
namespace {

constexpr std::int64_t most_tried = 8;  ///< micro-batches that are searched for one with a loss
constexpr std::uint64_t noise_draws = 2;
/// Batch normalisation needs several; and an odd number distinguishes rows of samples from other
/// dimensions, which are mostly even.
constexpr std::int64_t samples_compared = 3;

/// The results of a pass over a micro-batch.
struct PassGradients {
  double loss = 0;                ///< mean
  std::vector<at::Tensor> means;  ///< of each trained parameter
};

std::string in_words(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", number);
  return text;
}

std::string samples_in_words(std::int64_t count) {
  return count == 1 ? "the first sample" : "the first " + counted(count, "sample");
}

AcceleratedCalls less(AcceleratedCalls calls, const AcceleratedCalls& before) {
  calls.products -= before.products;
  calls.convolutions -= before.convolutions;
  calls.embeddings -= before.embeddings;
  calls.layer_norms -= before.layer_norms;
  calls.gelus -= before.gelus;
  calls.attentions -= before.attentions;
  calls.dropouts -= before.dropouts;
  return calls;
}

/// Two ways to run one micro-batch of a model, and their difference.
class Comparison {
 public:
  Comparison(const Workload& work, const data::Loader& loader, batch::Range samples)
      : work_(work), loader_(loader), samples_(samples), window_(buffer_of(*work.model)) {
    for (const accum::GradientBuffer::Entry& entry : window_.buffer()->entries())
      trained_.push_back({entry.name, entry.parameter});
  }

  /// None if the loss is not finite, or has no weight.
  std::optional<PassGradients> run(const kernels::Operations* operations, double weighting = 1) {
    const Keep buffers{BufferSnapshot(*work_.model)};
    const std::vector<models::LossHead> heads = work_.model->losses();
    const batch::MicroBatch micro = loader_.fetch(samples_);  // a pass may write into it
    if (micro.is_empty()) return std::nullopt;
    ForwardContext context = batch::training_context(micro, work_.config.run.seed, 0);
    context.operations = operations;
    window_.open(0);
    const PassResult pass =
        run_micro_batch(window_, *work_.model, {.index = 0, .sample_ids = micro.sample_ids}, micro,
                        context,
                        {.factors = std::vector<double>(heads.size(), 1.0), .weighting = weighting})
            .pass;
    std::optional<PassGradients> result;
    if (pass.finite && pass.weight > 0) result = means_of(pass);
    window_.discard();
    return result;
  }

  /// A difference that rounding does not explain; empty if there is none.
  std::string difference(const PassGradients& mine, const PassGradients& plain) {
    const models::Compute compute = work_.config.precision.compute;
    // Kernels round at other places than libtorch's operators, which draws of these do not show.
    const double loss_bound =
        8 * loss_noise_ + 64 * unit_roundoff(trained_.front().tensor.scalar_type()) +
        (is_mixed(compute) ? unit_roundoff(models::activation_dtype(compute)) : 0);
    const double loss_error = std::abs(mine.loss - plain.loss);
    const double loss_size = std::abs(plain.loss);
    std::string found = beyond("the loss", loss_error, loss_bound * loss_size, loss_size);
    for (std::size_t i = 0; i < trained_.size() && found.empty(); ++i) {
      const double size = l2_norm(plain.means[i]);
      const double bound =
          rounding_bound({.gradient_norm = size,
                          .noise = noise_[i],
                          .unit_roundoff = unit_roundoff(trained_[i].tensor.scalar_type())});
      found = beyond("the gradient of " + trained_[i].name, l2_norm(mine.means[i] - plain.means[i]),
                     bound, size);
    }
    return found;
  }

  /// A difference when the same pass is run again; empty if the model repeats itself.
  std::string difference_of_repetition(const PassGradients& plain) {
    noise_.assign(trained_.size(), 0.0);
    const auto again = run(&kernels::plain_operations());
    const std::string found = again ? difference(*again, plain) : "a loss that is not finite";
    largest_share_ = 0;
    return found;
  }

  /// The effect of rounding: the plain pass's change if parameters and loss are rounded again.
  void draw_noise(const PassGradients& plain) {
    for (std::uint64_t seed = 1; seed <= noise_draws; ++seed) {
      const Keep values{TensorSnapshot(trained_)};
      perturb(trained_, seed);
      const auto moved = run(&kernels::plain_operations(), drawn_scale(seed));
      if (!moved) continue;
      loss_noise_ = std::max(
          loss_noise_, std::abs(moved->loss - plain.loss) / std::max(std::abs(plain.loss), 1e-30));
      for (std::size_t i = 0; i < noise_.size(); ++i)
        noise_[i] = std::max(noise_[i], l2_norm(moved->means[i] - plain.means[i]));
    }
    std::vector<double> sizes;
    for (const at::Tensor& mean : plain.means) sizes.push_back(l2_norm(mean));
    raise_to_usual(noise_, sizes);
  }

  /// The largest difference found, as a share of its bound.
  double largest_share() const { return largest_share_; }

 private:
  static std::shared_ptr<accum::GradientBuffer> buffer_of(const models::Model& model) {
    return std::make_shared<accum::GradientBuffer>(model.parameters());
  }

  PassGradients means_of(const PassResult& pass) const {
    PassGradients result{.loss = pass.loss_sum / pass.weight};
    for (const accum::GradientBuffer::Entry& entry : window_.buffer()->entries())
      result.means.push_back(entry.slot->fresh ? at::zeros_like(entry.parameter.detach())
                                               : entry.slot->main / pass.weight);
    return result;
  }

  std::string beyond(const std::string& what, double error, double bound, double size) {
    if (error <= bound) {
      if (bound > 0) largest_share_ = std::max(largest_share_, error / bound);
      return {};
    }
    const double relative = size > 0 ? size : 1;
    return what + " differs by " + in_words(error / relative) +
           " of itself, where rounding makes " + in_words(bound / relative);
  }

  const Workload& work_;
  const data::Loader& loader_;
  batch::Range samples_;
  accum::Window window_;
  NamedParameters trained_;
  std::vector<double> noise_;
  double loss_noise_ = 0;
  double largest_share_ = 0;
};

/// None if the micro-batch has no loss to compare.
std::optional<AccelerationCheck> check_on(const Workload& work, const data::Loader& loader,
                                          batch::Range samples) {
  const std::string where = samples_in_words(samples.size());
  const kernels::Operations* libtorchs = &kernels::plain_operations();
  Comparison comparison(work, loader, samples);
  const auto plain = comparison.run(libtorchs);
  if (!plain) return std::nullopt;
  if (const std::string difference = comparison.difference_of_repetition(*plain);
      !difference.empty())
    return AccelerationCheck{
        false, {}, "two passes of libtorch's over " + where + " are not alike: " + difference};
  comparison.draw_noise(*plain);
  const AcceleratedCalls before = work.model->accelerated_calls();
  const auto mine = comparison.run(nullptr);
  const AcceleratedCalls calls = less(work.model->accelerated_calls(), before);
  if (!mine) return AccelerationCheck{false, calls, "the loss of " + where + " is not finite then"};
  const std::string difference = comparison.difference(*mine, *plain);
  if (!difference.empty()) return AccelerationCheck{false, calls, "on " + where + ' ' + difference};
  return AccelerationCheck{true, calls,
                           "loss and gradients of " + where +
                               " are libtorch's but for rounding (at most " +
                               in_words(comparison.largest_share()) + " of its bound)"};
}

/// A pass over fewer samples, which reveals dropouts that do not follow the samples.
void look_at_dropouts(const Workload& work, const data::Loader& loader, batch::Range samples) {
  if (samples.size() < 2) return;
  const at::NoGradGuard no_grad;
  const batch::MicroBatch micro = loader.fetch({samples.begin, samples.end - 1});
  if (micro.is_empty()) return;
  models::run_segments(*work.model, micro, batch::training_context(micro, work.config.run.seed, 0));
}

AccelerationCheck check_on_first_samples(const Workload& work, std::int64_t samples) {
  const data::Loader loader(work.data.train, make_sampler(work.config, *work.data.train));
  std::int64_t tried = 0;
  for (const batch::Range part : batch::split(work.schedule.window(0), samples)) {
    if (tried++ == most_tried) break;
    const std::optional<AccelerationCheck> check = check_on(work, loader, part);
    if (!check) continue;
    if (check->calls.dropouts > 0) look_at_dropouts(work, loader, part);
    return *check;
  }
  return {false, {}, "none of the first samples has a finite loss to compare"};
}

}  // namespace

AccelerationCheck check_acceleration(const Workload& work) {
  const Keep buffers{BufferSnapshot(*work.model)};
  for (const std::int64_t samples : {samples_compared, std::int64_t{1}}) {
    try {
      return check_on_first_samples(work, samples);
    } catch (const std::exception& error) {
      const bool is_memory = memory::is_out_of_memory(error);
      if (is_memory && samples > 1) continue;
      const std::string reason = is_memory ? memory::why_out_of_memory(error) : cause_of(error);
      return {false, {}, "a pass to compare failed: " + reason};
    }
  }
  return {};
}

}  // namespace accrue::train
