// Faults planted in the parts of training (the closing of windows, optimizers, data): each is found
// by verify's own flow, in fp32 and in bf16, with the correct name.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "accrue/kernels/grad_slot.h"
#include "faulty_parts.h"
#include "scaled_gradient.h"

namespace accrue::proof {
namespace {

using testing::ChangedModel;
using testing::ChangedOptimizer;
using ::testing::Contains;
using testing::FaultyParts;
using ::testing::HasSubstr;
using testing::LossHeads;
using testing::ScaledGradient;

constexpr std::int64_t kContext = 12;  ///< of the texts' samples

/// Multiplies the mean gradient by `factor`.
void multiply(accum::MeanGradient& gradient, double factor) {
  const at::NoGradGuard no_grad;
  gradient.materialize();
  for (const accum::GradientBuffer::Entry& entry : gradient.buffer().entries())
    if (entry.parameter.grad().defined()) entry.parameter.mutable_grad().mul_(factor);
  gradient.changed();
}

double micro_batches_of(const accum::Window& window) {
  return static_cast<double>(window.ledger().count(MicroStatus::committed));
}

kernels::GradSlot* open_slot(const NamedParameters& parameters, const std::string& name) {
  const auto found = std::ranges::find(parameters, name, &NamedParameter::name);
  return kernels::open_slot_of(found->tensor);
}

/// Training's own optimizer of a config with that decay.
FaultyParts::OptimizerMaker with_decay_of(train::Decay decay) {
  return [decay](train::Config config, const NamedParameters& trained) {
    config.optim.decay = decay;
    return train::make_optimizer(config, trained);
  };
}

/// Its steps change nothing.
class NeverSteps final : public ChangedOptimizer {
 public:
  using ChangedOptimizer::ChangedOptimizer;
  void step(accum::MeanGradient&&, double) override {}
};

/// Clips the mean by the norm of the sum.
class ClipsBySum final : public ChangedOptimizer {
 public:
  ClipsBySum(std::unique_ptr<optim::Optimizer> sound, double clip)
      : ChangedOptimizer(std::move(sound)), clip_(clip) {}
  void step(accum::MeanGradient&& gradient, double lr) override {
    gradient.clip(clip_ / gradient.weight());
    ChangedOptimizer::step(std::move(gradient), lr);
  }

 private:
  double clip_;
};

/// The optimizer has counted a step before its first.
std::unique_ptr<optim::Optimizer> one_step_ahead(const train::Config& config,
                                                 const NamedParameters& trained) {
  std::unique_ptr<optim::Optimizer> optimizer = train::make_optimizer(config, trained);
  NamedParameters state = optimizer->state();
  for (NamedParameter& tensor : state)
    if (tensor.name == "step") tensor.tensor = at::ones_like(tensor.tensor);
  optimizer->load_state(state);
  return optimizer;
}

/// Each micro-batch's mean counts equally, as if the loop divided a sum of means by their number.
struct MeanOfMeans {
  struct Weights {
    double first = 1, own = 1;  ///< of the window's first micro-batch, and of the running one
  };
  std::shared_ptr<Weights> weights = std::make_shared<Weights>();

  ChangedModel::Fault in_model() const {
    return {
        .losses =
            [weights = weights](LossHeads& heads) {
              heads.front().forward = [weights, sound = heads.front().forward](
                                          const models::Activations& x,
                                          const batch::MicroBatch& micro,
                                          const ForwardContext& context, double scale) {
                const double factor = context.operations ? 1 : weights->first / weights->own;
                Loss loss = sound(x, micro, context, scale * factor);
                loss.sum = ScaledGradient::apply(loss.sum, factor);
                return loss;
              };
            },
        .before_pass =
            [weights = weights](const NamedParameters& parameters, const batch::MicroBatch& micro) {
              const auto* slot = kernels::open_slot_of(parameters.front().tensor);
              weights->own = static_cast<double>(micro.targets.numel());
              if (!slot || slot->fresh) weights->first = weights->own;
            }};
  }
  void operator()(const accum::Window& window, accum::MeanGradient& gradient) const {
    multiply(gradient, gradient.weight() / (micro_batches_of(window) * weights->first));
  }
};

/// Text in which one sample is replaced in micro-batches of a size, or counts twice there.
class OneSampleTwice final : public data::Source {
 public:
  enum class How { in_place_of_its_neighbour, by_its_weight };
  OneSampleTwice(std::shared_ptr<const data::Source> sound, std::size_t micro, How how)
      : sound_(std::move(sound)), micro_(micro), how_(how) {}

  std::int64_t size() const override { return sound_->size(); }
  std::int64_t vocab() const override { return sound_->vocab(); }
  std::int64_t tokens(std::int64_t index) const override { return sound_->tokens(index); }
  std::optional<std::int64_t> uniform_tokens() const override { return sound_->uniform_tokens(); }
  std::string fingerprint() const override { return sound_->fingerprint(); }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    std::vector<std::int64_t> samples(indices.begin(), indices.end());
    const auto found = std::ranges::find(samples, kSample);
    if (samples.size() != micro_ || found == samples.end()) return sound_->fetch(indices);
    const auto place = found - samples.begin();
    if (how_ == How::in_place_of_its_neighbour) {
      samples[static_cast<std::size_t>(place == 0 ? 1 : place - 1)] = kSample;
      return sound_->fetch(samples);
    }
    batch::MicroBatch micro = sound_->fetch(samples);
    micro.weights = at::ones(micro.targets.sizes());
    micro.weights[place].fill_(2);
    return micro;
  }

 private:
  static constexpr std::int64_t kSample = 17;
  std::shared_ptr<const data::Source> sound_;
  std::size_t micro_;
  How how_;
};

class PartsFaults : public testing::ConfigsOfParts {
 protected:
  /// Decay and clipping that change every step.
  train::Config with_decay_and_clipping() const {
    train::Config config = without_dropout();
    config.optim.weight_decay = 0.1;
    config.optim.clip = 0.01;
    return config;
  }
  train::Config of_fixed_sums() const {
    train::Config config = without_dropout();
    config.precision.accumulate = accum::Accumulation::fixed;
    return config;
  }
  /// A window that is shorter than the batch at the end of the data: 11 samples of 16.
  train::Config of_short_window() const {
    train::Config config = without_dropout();
    config.batch.samples = 16;
    write_text(config, 11);
    return config;
  }
  static void write_text(const train::Config& config, std::int64_t samples) {
    std::ofstream text(config.data.train.front());
    for (std::int64_t i = 0; i <= samples * kContext; ++i)
      text << static_cast<char>('a' + (i * i + i / 7) % 23);
  }
  static void expect_steps_to_blame(const train::Config& config, const FaultyParts& faulty) {
    expect_found(config, faulty, Cause::unknown);
  }
};

TEST_F(PartsFaults, SoundPartsAreEqual) {
  expect_equal(with_decay_and_clipping());
  expect_equal(of_fixed_sums());
  expect_equal(of_short_window());
}

TEST_F(PartsFaults, DivisionByTheNumberOfMicroBatchesIsNormalization) {
  FaultyParts faulty;
  faulty.after_close = [](const accum::Window& window, accum::MeanGradient& gradient) {
    multiply(gradient, gradient.weight() / micro_batches_of(window));
  };
  expect_found(without_dropout(), faulty, Cause::normalization);
}

TEST_F(PartsFaults, AMeanOfMeansIsWeighting) {
  const MeanOfMeans mean;
  FaultyParts faulty;
  faulty.in_model = mean.in_model();
  faulty.after_close = mean;
  expect_found(without_dropout(), faulty, Cause::weighting);
}

TEST_F(PartsFaults, AShortWindowOverTheFullWeightIsNormalization) {
  FaultyParts faulty;
  faulty.after_close = [full = 16.0 * kContext](const accum::Window&,
                                                accum::MeanGradient& gradient) {
    multiply(gradient, gradient.weight() / full);
  };
  expect_found(of_short_window(), faulty, Cause::normalization);
}

TEST_F(PartsFaults, BiasCorrectionOffByOneIsFound) {
  FaultyParts faulty;
  faulty.make_optimizer = one_step_ahead;
  expect_steps_to_blame(without_dropout(), faulty);
}

TEST_F(PartsFaults, DecayOnBiasesIsFound) {
  FaultyParts faulty;
  faulty.make_optimizer = with_decay_of(train::Decay::all);
  expect_steps_to_blame(with_decay_and_clipping(), faulty);
}

TEST_F(PartsFaults, ClippingBeforeTheDivisionIsFound) {
  const train::Config config = with_decay_and_clipping();
  FaultyParts faulty;
  faulty.make_optimizer = [](const train::Config& c, const NamedParameters& trained) {
    return std::make_unique<ClipsBySum>(train::make_optimizer(c, trained), c.optim.clip);
  };
  expect_steps_to_blame(config, faulty);
}

TEST_F(PartsFaults, StepsThatAreNotTakenAreFound) {
  FaultyParts faulty;
  faulty.make_optimizer = [](const train::Config& c, const NamedParameters& trained) {
    return std::make_unique<NeverSteps>(train::make_optimizer(c, trained));
  };
  expect_steps_to_blame(without_dropout(), faulty);
}

TEST_F(PartsFaults, AFixedPointSumOffByOneUnitIsFound) {
  FaultyParts faulty;
  faulty.before_close = [](accum::Window& window) {
    if (window.buffer()->accumulation() != accum::Accumulation::fixed) return;
    for (const accum::GradientBuffer::Entry& entry : window.buffer()->entries())
      if (entry.name == "transformer.h.1.ln_1.weight")
        entry.slot->main.flatten().narrow(0, 3, 1).add_(1);
  };
  expect_found(of_fixed_sums(), faulty, Cause::unknown);
}

/// The positions' rows, which a fresh slot must zero before samples add to some of them.
TEST_F(PartsFaults, AStaleRowOfAnEmbeddingIsFound) {
  FaultyParts faulty;
  faulty.in_model.before_pass = [](const NamedParameters& parameters, const batch::MicroBatch&) {
    kernels::GradSlot* const slot = open_slot(parameters, "transformer.wpe.weight");
    if (!slot || !slot->fresh) return;
    slot->main.zero_();
    slot->main[3].fill_(1);
    slot->fresh = false;
  };
  expect_found(without_dropout(), faulty, Cause::unknown);
}

TEST_F(PartsFaults, OneSampleTwiceAmongAThousandIsFound) {
  constexpr std::int64_t samples = 1000, micro = 50;
  train::Config config = without_dropout();
  config.model.layers = 1;
  config.batch.samples = samples;
  config.batch.micro = micro;
  config.data.order = batch::Order::sequential;
  write_text(config, samples + 64);
  FaultyParts sound;
  sound.in_model.flops_per_sample = 100'000'000;  // so that few splits contain all samples
  using How = OneSampleTwice::How;
  for (const models::Compute compute : testing::both_computes)
    for (const How how : {How::by_its_weight, How::in_place_of_its_neighbour}) {
      config.precision.compute = compute;
      train::Workload work = train::open_workload(config);
      work.data.train = std::make_shared<OneSampleTwice>(work.data.train, micro, how);
      const Report report = verified(std::move(work), sound);
      EXPECT_FALSE(report.equal) << to_string(compute) << why(report);
      // Its gradient is that of the loaded micro-batches; the report says that these are wrong.
      EXPECT_THAT(all_causes(report), Contains(Cause::unknown)) << why(report);
      EXPECT_THAT(report.evidence, Contains(HasSubstr("of the micro-batch of draws 0 to 49")));
    }
  const Report without = verified(config, sound);
  EXPECT_TRUE(without.equal) << why(without);
}

}  // namespace
}  // namespace accrue::proof
