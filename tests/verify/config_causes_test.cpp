// Each cause in the guide's table that a config can have, through verify's own flow.
#include <gmock/gmock.h>

#include <numeric>

#include "accrue/kernels/grad_slot.h"
#include "faulty_parts.h"

namespace accrue::proof {
namespace {

using testing::ChangedModel;
using testing::FaultyParts;
using testing::LossHeads;
using testing::Segments;
using ::testing::StartsWith;

using ChangeOfLoss = std::function<void(Loss&, const batch::MicroBatch&)>;

/// Changes the loss of the head in every pass.
ChangedModel::Fault of_loss(ChangeOfLoss change) {
  return {.losses = [change = std::move(change)](LossHeads& heads) {
    heads.front().forward = [change, sound = heads.front().forward](
                                const models::Activations& x, const batch::MicroBatch& micro,
                                const ForwardContext& context, double scale) {
      Loss loss = sound(x, micro, context, scale);
      change(loss, micro);
      return loss;
    };
  }};
}

/// Changes the context of each segment in every pass.
ChangedModel::Fault of_context(std::function<void(ForwardContext&)> change) {
  return {.segments = [change = std::move(change)](Segments& segments) {
    for (models::Segment& segment : segments)
      segment.forward = [change, sound = segment.forward](const models::Activations& x,
                                                          const batch::MicroBatch& micro,
                                                          ForwardContext context) {
        change(context);
        return sound(x, micro, context);
      };
  }};
}

class ConfigCauses : public testing::ConfigsOfParts {
 protected:
  /// A loss that autograd differentiates after the change, without a kernel's precomputed gradient.
  train::Config of_plain_loss() const {
    train::Config config = without_dropout();
    config.loss.cross_entropy = train::CrossEntropy::plain;
    return config;
  }
  static FaultyParts with(ChangedModel::Fault fault) {
    FaultyParts parts;
    parts.in_model = std::move(fault);
    return parts;
  }
};

TEST_F(ConfigCauses, SoundLossesAndContextsAreEqual) {
  expect_equal(of_plain_loss());
  expect_equal(of_text());
}

TEST_F(ConfigCauses, AMeanThatALossReportsAsASumIsWeighting) {
  const FaultyParts faulty = with(of_loss([](Loss& loss, const batch::MicroBatch&) {
    loss = {loss.sum / loss.weight, 1};
  }));
  expect_found(of_plain_loss(), faulty, Cause::weighting);
}

TEST_F(ConfigCauses, AFactorThatTheWholeDoesNotHaveIsNormalization) {
  const train::Config config = of_plain_loss();
  const std::int64_t all = *config.batch.samples;
  const FaultyParts faulty = with(of_loss([all](Loss& loss, const batch::MicroBatch& micro) {
    if (micro.targets.size(0) < all) loss.sum = loss.sum * 3;
  }));
  expect_found(config, faulty, Cause::normalization);
}

TEST_F(ConfigCauses, SumsThatAreClearedInTheMiddleAreZeroedMidWindow) {
  FaultyParts faulty;
  faulty.in_model.before_pass = [](const NamedParameters& parameters,
                                   const batch::MicroBatch& micro) {
    if (micro.sample_ids.front() != 4) return;
    for (const NamedParameter& parameter : parameters)
      if (kernels::GradSlot* const slot = kernels::open_slot_of(parameter.tensor))
        slot->fresh = true;
  };
  expect_found(without_dropout(), faulty, Cause::zeroed_mid_window);
}

TEST_F(ConfigCauses, ALossThatChangesFromPassToPassIsNondeterminism) {
  const auto passes = std::make_shared<int>(0);
  const FaultyParts faulty = with(of_loss([passes](Loss& loss, const batch::MicroBatch&) {
    loss.sum = loss.sum * (1 + 0.01 * ++*passes);
  }));
  expect_found(of_plain_loss(), faulty, Cause::nondeterminism);
}

TEST_F(ConfigCauses, AMaskByTheRowInTheMicroBatchIsDropout) {
  const FaultyParts faulty = with(of_context([](ForwardContext& context) {
    std::iota(context.sample_ids.begin(), context.sample_ids.end(), 0);
  }));
  expect_found(of_text(), faulty, Cause::dropout);
}

TEST_F(ConfigCauses, WhatSpeaksAgainstOthersIsSaid) {
  FaultyParts faulty;
  faulty.after_close = [](const accum::Window&, accum::MeanGradient& gradient) {
    gradient.clip(gradient.norm() / 2);
  };
  const Report report = verified(without_dropout(), faulty);
  expect_cause(report, Cause::normalization);
  EXPECT_THAT(report.ruled_out,
              ::testing::IsSupersetOf({StartsWith("nondeterminism: "), StartsWith("batchnorm: "),
                                       StartsWith("batch-coupled-loss: ")}));
}

}  // namespace
}  // namespace accrue::proof
