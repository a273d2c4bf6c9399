#include "verify/config/steps_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/train/custom.h"
#include "core/words.h"
#include "memory/out_of_memory.h"
#include "train/config/gradient_folding.h"
#include "verify/comparison.h"
#include "verify/config/check_plan_input.h"
#include "verify/findings.h"

namespace accrue::proof {
namespace {

constexpr std::uint64_t most_draws = 9;
/// Added to all elements of vectors before the steps: their decay becomes visible in it.
constexpr double start_of_vectors = 0.1;
constexpr const char* movement_scaled = "the movement of a parameter by steps scaled";

void move_vectors(const NamedParameters& parameters) {
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : parameters)
    if (parameter.tensor.dim() < 2) at::Tensor(parameter.tensor).add_(start_of_vectors);
}

/// The results of steps by all methods, as movements from the start.
class Steps {
 public:
  Steps(ConfigSubject& subject, const StepsSplit& split)
      : subject_(subject), split_(split), keep_(subject.parameters()) {
    noise_.one_way = subject.rounds_elsewhere();
    move_vectors(subject.parameters());
    reference_ = by_reference(1);
    add("one process", subject.after_steps(split.coarse));
    add("one process", subject.after_steps(split.fine, {}, split.fine_by));
    if (split.ranks > 1) add_ranks();
  }

  void draw(std::uint64_t seed) {
    draw_noise(
        noise_, subject_.parameters(), [this](double weighting) { return by_reference(weighting); },
        reference_, seed, subject_.rounds_elsewhere());
  }

  StepsComparison judged() const {
    const auto [comparison, stepper] = farthest();
    const SplitResult of_all = result_of(split_.name, 0, 0, subject_.parameters(), comparison);
    StepsComparison judged{.result = {.steps = std::ssize(split_.coarse),
                                      .splits = split_.name,
                                      .ranks = split_.ranks,
                                      .stepper = stepper,
                                      .parameter = of_all.parameter,
                                      .relative_error = of_all.relative_error,
                                      .bound = of_all.bound,
                                      .largest_error = of_all.largest_error,
                                      .largest_bound = of_all.largest_bound,
                                      .equal = of_all.equal,
                                      .joint_bound = joint_bound(comparison),
                                      .loosest = loosest_bound(subject_.parameters(), comparison)},
                           .left_out = left_out_};
    judged.result.conclusive = judged.result.joint_bound <= most_conclusive_bound;
    double noticed = 0;
    for (const SmallestFault& fault :
         smallest_faults(subject_.parameters(), comparison, reference_, {}))
      noticed = std::max(noticed, fault.relative);
    judged.smallest_fault = {movement_scaled, noticed};
    return judged;
  }

 private:
  /// The movement of parameters by steps, and who took them.
  struct Movement {
    std::string stepper;
    Gradients movement;
  };
  struct Farthest {
    Comparison comparison;
    std::string stepper;
  };

  Farthest farthest() const {
    Farthest worst;
    for (const Movement& one : movements_) {
      Comparison comparison = compare(subject_.parameters(), one.movement, reference_, noise_);
      if (worst.stepper.empty() ||
          comparison.difference().ratio > worst.comparison.difference().ratio)
        worst = {std::move(comparison), one.stepper};
    }
    return worst;
  }

  void add(std::string stepper, const std::vector<at::Tensor>& after) {
    movements_.push_back({std::move(stepper), moved_by(after)});
  }

  void add_ranks() {
    try {
      std::size_t rank = 0;
      for (const std::vector<at::Tensor>& after :
           subject_.after_steps_of_ranks(split_.ranks, split_.ranks_micro, split_.whole))
        add("rank " + std::to_string(rank++) + " of " + std::to_string(split_.ranks), after);
    } catch (const std::exception& error) {
      if (!memory::is_out_of_memory(error)) throw;
      left_out_.push_back("optimizer steps by " + counted(split_.ranks, "rank") +
                          ": a model and an optimizer for each do not fit into memory; a larger "
                          "memory.budget has them");
    }
  }

  Gradients by_reference(double weighting) {
    return moved_by(subject_.after_reference_steps(split_.whole, {.weighting = weighting}));
  }

  /// From the current parameters.
  Gradients moved_by(const std::vector<at::Tensor>& after) const {
    Gradients movement{.weight = 1, .has_totals = false};
    for (std::size_t i = 0; i < after.size(); ++i) {
      const at::Tensor& now = subject_.parameters()[i].tensor;
      movement.sums.push_back(after[i].to(at::kDouble) - now.detach().cpu().to(at::kDouble));
      // Both sides round each parameter in each step, and moments too.
      movement.accumulation_errors.push_back(2 * static_cast<double>(split_.coarse.size()) *
                                             unit_roundoff(now.scalar_type()) * l2_norm(after[i]));
    }
    return movement;
  }

  ConfigSubject& subject_;
  const StepsSplit& split_;
  const KeepParameters keep_;
  Gradients reference_;
  std::vector<Movement> movements_;
  std::vector<std::string> left_out_;
  Noise noise_;
};

}  // namespace

StepsToCompare steps_to_compare(const train::Config& config, const std::string& what,
                                std::int64_t samples) {
  if (config.custom && config.custom->optimizer)
    return {.any = false,
            .left_out = {"optimizer steps: the program brings its optimizer, of which no second "
                         "one is known to compare it with"}};
  if (config.optim.kind == train::OptimizerKind::adama)
    return {.any = false,
            .left_out = {"optimizer steps: AdamA's second moment takes each micro-batch's gradient "
                         "squared, so its steps depend on the split by design"}};
  if (samples < 2)
    return {.any = false, .left_out = {what + ": two samples do not fit into one pass"}};
  if (config.optim.state == optim::StatePrecision::fp32) return {};
  return {.left_out = {
              "optimizer steps with optim.state = " + in_quotes(to_string(config.optim.state)) +
              ", which rounds moments at each step: those that are compared keep them in "
              "fp32"}};
}

StepsSplit split_steps(const ConfigSubject& subject, const train::Workload& work,
                       std::int64_t steps, std::int64_t samples) {
  const batch::WindowSchedule& schedule = work.schedule;
  const std::int64_t coarse = (samples + 1) / 2, fine = std::max<std::int64_t>(1, samples / 4);
  StepsSplit split{.name = "micro-batches of " + std::to_string(coarse) + " and of " +
                           std::to_string(fine)};
  if (train::folds_gradients(work.config)) {
    split.name += ", folded";
    split.fine_by = StepsBy::folding;
  }
  split.name += ", against torch::optim";
  if (sums_are_coarse(work.config)) split.name += ", sums in the parameters' precision";
  for (std::int64_t step = 0; step < steps; ++step) {
    const batch::Range range = subject.counting(schedule.window(step), samples);
    split.whole.push_back(range);
    split.coarse.push_back(batch::split(range, coarse));
    split.fine.push_back(batch::split(range, fine));
  }
  return split;
}

void add_steps_of_ranks(StepsSplit& split, const train::Workload& work, std::int64_t ranks,
                        Recompute recompute) {
  split.ranks = ranks;
  split.ranks_micro = {.samples = split.coarse.front().front().size(), .recompute = recompute};
  split.name += work.config.dist.stages > 1 ? ", also by " + counted(ranks, "stage")
                                            : ", also by " + counted(ranks, "rank");
  if (work.config.dist.shard != train::Shard::none)
    split.name += " with dist.shard = " + in_quotes(to_string(work.config.dist.shard));
}

StepsComparison compare_steps(ConfigSubject& subject, const StepsSplit& split) {
  Steps steps(subject, split);
  steps.draw(1);
  StepsComparison judged = steps.judged();
  for (std::uint64_t seed = 2; !judged.result.equal && seed <= most_draws; ++seed) {
    steps.draw(seed);
    judged = steps.judged();
  }
  return judged;
}

}  // namespace accrue::proof
