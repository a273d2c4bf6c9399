// Faults planted in training's handling of a window that is correct in one pass: each is found.
#include <gmock/gmock.h>

#include "accrue/models/trainable.h"
#include "changed_model.h"
#include "configs_to_verify.h"
#include "verify/config/config_subject.h"
#include "verify/prover.h"

namespace accrue::proof {
namespace {

using testing::ChangedModel;
using testing::Segments;

/// The difference between the mask seeds of a segment's second and first run is `more`.
ChangedModel::Fault reruns_with_seed(std::uint64_t more) {
  return {.segments = [more](Segments& segments) {
    for (models::Segment& segment : segments)
      segment.forward = [forward = segment.forward, more](const models::Activations& x,
                                                          const batch::MicroBatch& micro,
                                                          ForwardContext context) {
        if (context.rerun) context.seed += more;
        return forward(x, micro, context);
      };
  }};
}

/// The batch normalisations of segment `place` use the statistics of the micro-batch.
ChangedModel::Fault normalises_by_micro_batch(std::size_t place) {
  return {.segments = [place](Segments& segments) {
    models::Segment& segment = segments.at(place);
    ASSERT_FALSE(segment.batch_norms.empty());
    segment.forward = [sound = segment](const models::Activations& x,
                                        const batch::MicroBatch& micro,
                                        const ForwardContext& context) {
      return models::run_segment(sound, x, micro, context);
    };
    segment.batch_norms.clear();
  }};
}

/// Data whose micro-batches of `lost` samples have no labels that count; 0: none.
class LosesMicroBatches final : public data::Source {
 public:
  LosesMicroBatches(std::shared_ptr<const data::Source> sound, std::size_t lost)
      : sound_(std::move(sound)), lost_(lost) {}

  std::int64_t size() const override { return sound_->size(); }
  std::int64_t vocab() const override { return sound_->vocab(); }
  std::int64_t tokens(std::int64_t index) const override { return sound_->tokens(index); }
  std::optional<std::int64_t> uniform_tokens() const override { return sound_->uniform_tokens(); }
  std::string fingerprint() const override { return sound_->fingerprint(); }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    batch::MicroBatch micro = sound_->fetch(indices);
    if (indices.size() == lost_) micro.targets = at::full_like(micro.targets, -100);
    return micro;
  }

 private:
  std::shared_ptr<const data::Source> sound_;
  std::size_t lost_;
};

/// SGD whose momentum uses all gradients except those of one micro-batch.
class Forgetful final : public optim::Optimizer {
 public:
  /// `forgotten`: the number of that micro-batch; -1: none.
  Forgetful(const NamedParameters& parameters, std::int64_t forgotten)
      : target_(std::make_shared<Target>(parameters, forgotten)) {}

  void step(accum::MeanGradient&&, double) override { target_->between = false; }
  NamedParameters state() const override { return target_->moments; }
  void load_state(const StoredTensors&) override {}
  std::int64_t state_bytes() const override { return 0; }
  std::shared_ptr<accum::FoldTarget> fold_target() override { return target_; }

 private:
  struct Target final : accum::FoldTarget {
    Target(const NamedParameters& given, std::int64_t which)
        : parameters(given), forgotten(which), seen(given.size()) {
      for (const NamedParameter& parameter : given)
        moments.push_back(
            {"momentum." + parameter.name, at::zeros_like(parameter.tensor.detach())});
    }
    std::size_t place_of(const at::Tensor& parameter) const {
      const auto found = std::ranges::find_if(
          parameters, [&](const NamedParameter& known) { return known.tensor.is_same(parameter); });
      return static_cast<std::size_t>(found - parameters.begin());
    }
    bool takes(const at::Tensor& parameter) const override {
      return place_of(parameter) < parameters.size();
    }
    bool takes_parts() const override { return false; }
    void fold(const at::Tensor& parameter, const at::Tensor& contribution, double scale) override {
      const std::size_t place = place_of(parameter);
      between = true;
      if (seen[place]++ == forgotten) return;
      const at::NoGradGuard no_grad;
      moments[place].tensor.add_(contribution, scale);
    }
    bool is_between_steps() const override { return between; }

    NamedParameters parameters, moments;
    std::int64_t forgotten;
    std::vector<std::int64_t> seen;  ///< contributions, by parameter
    bool between = false;
  };

  std::shared_ptr<Target> target_;
};

class TrainingFaults : public testing::ConfigsToVerify {
 protected:
  static train::Workload with_model(const train::Config& config, ChangedModel::Fault fault) {
    train::Workload work = train::open_workload(config);
    work.model = std::make_unique<ChangedModel>(std::move(work.model), std::move(fault));
    return work;
  }
  static Report verified(const train::Config& config, ChangedModel::Fault fault) {
    return verify_workload(with_model(config, std::move(fault)));
  }
  static std::string why(const Report& report) {
    return conclusion(report) + ::testing::PrintToString(report.evidence);
  }

  /// The result of training's own split of the window.
  static const SplitResult& of_training(const Report& report) {
    const auto found = std::ranges::find(report.splits, "micro-batches of 4", &SplitResult::name);
    EXPECT_NE(found, report.splits.end());
    return *found;
  }
};

constexpr auto kComputes = {models::Compute::fp32, models::Compute::bf16};

TEST_F(TrainingFaults, RecomputationWithAnotherMaskIsFound) {
  train::Config config = of_text();
  for (const Recompute recompute : {Recompute::full, Recompute::none})
    for (const models::Compute compute : kComputes) {
      config.memory.recompute = recompute;
      config.precision.compute = compute;
      SCOPED_TRACE(std::string(to_string(recompute)) + ", " + std::string(to_string(compute)));
      const bool reruns = recompute == Recompute::full;
      const Report broken = verified(config, reruns_with_seed(1));
      EXPECT_EQ(broken.equal, !reruns) << why(broken);
      EXPECT_EQ(of_training(broken).equal, !reruns);
      EXPECT_EQ(to_string(broken.cause), reruns ? "unknown" : "none") << why(broken);
      const Report sound = verified(config, reruns_with_seed(0));
      EXPECT_TRUE(sound.equal) << why(sound);
    }
}

TEST_F(TrainingFaults, AnExactNormalisationByOneMicroBatchIsFound) {
  const train::Config config = of_resnet(models::BatchNormPolicy::exact);
  const Report broken = verified(config, normalises_by_micro_batch(2));
  EXPECT_FALSE(broken.equal) << why(broken);
  EXPECT_FALSE(of_training(broken).equal);
  const Report sound = verified(config, {});
  EXPECT_TRUE(sound.equal) << why(sound);
}

TEST_F(TrainingFaults, AShortLastMicroBatchThatIsLeftOutIsFound) {
  train::Config config = of_text();  // of 10 samples, 2 remain after micro-batches of 4
  for (const models::Compute compute : kComputes)
    for (const std::size_t lost : {2, 0}) {
      config.precision.compute = compute;
      train::Workload work = train::open_workload(config);
      work.data.train = std::make_shared<LosesMicroBatches>(work.data.train, lost);
      ConfigSubject subject(work);
      Prover prover(subject, subject.window(), 2);
      Findings findings(subject.parameters());
      const SplitResult result = prover.check(even_split(subject.window(), 4), findings);
      EXPECT_EQ(result.equal, lost == 0) << to_string(compute) << ", " << result.relative_error;
    }
}

TEST_F(TrainingFaults, AFoldThatForgetsAMicroBatchIsFound) {
  train::Config config = of_text();
  config.optim.kind = train::OptimizerKind::adama;  // which takes a micro-batch as a whole
  config.optim.clip = 0;
  for (const models::Compute compute : kComputes) {
    config.precision.compute = compute;
    const train::Workload work = train::open_workload(config);
    ConfigSubject subject(work);
    for (const std::int64_t forgotten : {-1, 1}) {
      Forgetful optimizer(subject.parameters(), forgotten);
      Prover prover(subject, subject.window(), 2);
      Findings findings(subject.parameters());
      const Split split = even_split(subject.window(), 4);
      Gradients folded = subject.folded_into(optimizer, {"momentum."}, split.parts);
      folded.accumulation_errors = subject.accumulated(split.parts, {}).accumulation_errors;
      const SplitResult result = prover.record(split, folded, findings);
      EXPECT_EQ(result.equal, forgotten < 0) << to_string(compute) << ", " << result.relative_error;
    }
  }
}

/// All kinds of accumulation in training are compared, by name.
TEST_F(TrainingFaults, FoldedGradientsAreComparedAndSound) {
  train::Config config = of_text();
  config.optim.clip = 0;
  for (const auto kind : {train::OptimizerKind::sgd, train::OptimizerKind::adama}) {
    config.optim.kind = kind;
    config.memory.gradients = kind == train::OptimizerKind::sgd ? train::GradientPlace::optimizer
                                                                : train::GradientPlace::buffer;
    const Report report = verify_config(config);
    EXPECT_TRUE(report.equal) << why(report);
    EXPECT_EQ(std::ranges::count(report.splits, "micro-batches of 4, folded", &SplitResult::name),
              1);
    EXPECT_EQ(report.steps.has_value(), kind == train::OptimizerKind::sgd);
    if (report.steps) {
      EXPECT_EQ(report.steps->splits, "micro-batches of 5 and of 2, folded, against torch::optim");
    }
  }
}

}  // namespace
}  // namespace accrue::proof
