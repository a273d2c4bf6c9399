#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "accrue/data/own_source.h"
#include "accrue/train/custom.h"
#include "configs_to_verify.h"

namespace accrue::proof {

/// A program's own batch type.
struct Rows {
  at::Tensor inputs, targets;
};
Rows batch_in_double(const Rows& rows) {
  return {rows.inputs.to(at::kDouble), rows.targets.to(at::kDouble)};
}

namespace {

using ::testing::HasSubstr;
using Net = torch::nn::Sequential;

Loss summed(Net& net, const batch::MicroBatch& micro) {
  const at::Tensor wrong =
      net->forward(micro.inputs) - micro.targets.to(micro.inputs.scalar_type());
  return {.sum = wrong.square().sum(), .weight = static_cast<double>(wrong.numel())};
}

/// The mean of a micro-batch, which counts as one.
Loss mean_of_micro_batch(Net& net, const batch::MicroBatch& micro) {
  const Loss loss = summed(net, micro);
  return {.sum = loss.sum / loss.weight, .weight = 1};
}

class CustomModelProof : public testing::ConfigsToVerify {
 protected:
  template <class MakeNet, class LossFn>
  train::Config config_of(MakeNet make, LossFn loss_fn) const {
    train::Config c = base();
    c.data.train.clear();
    c.batch = {.samples = 14, .micro = 7};
    return train::with_custom(
        c, {.model =
                [make, loss_fn](const train::Config& config) {
                  torch::manual_seed(config.run.seed);
                  return train::trainable(make(), loss_fn);
                },
            .train = data::tensor_source(at::arange(42 * 6, at::kFloat).sin().view({42, 6}),
                                         at::arange(42, at::kFloat).cos().view({42, 1}))});
  }
  static Net plain() {
    return Net(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
  }
};

TEST_F(CustomModelProof, PassesALossOfSums) {
  const Report report = verify_config(config_of(plain, summed));
  EXPECT_TRUE(report.equal) << conclusion(report);
}

TEST_F(CustomModelProof, PassesBf16UnderAutocasting) {
  for (const auto accelerate : {train::Accelerate::automatic, train::Accelerate::off}) {
    train::Config config = config_of(plain, summed);
    config.precision.compute = models::Compute::bf16;
    config.model.accelerate = accelerate;
    const Report report = verify_config(config);
    EXPECT_TRUE(report.equal) << conclusion(report);
    config = config_of(plain, mean_of_micro_batch);
    config.precision.compute = models::Compute::bf16;
    EXPECT_FALSE(verify_config(config).equal) << "its bounds still tell a mean of means";
  }
}

TEST_F(CustomModelProof, NamesAMeanOfMeans) {
  const Report report = verify_config(config_of(plain, mean_of_micro_batch));
  EXPECT_FALSE(report.equal) << conclusion(report);
}

TEST_F(CustomModelProof, PassesDropoutInsideAModuleWhereItIsAccelerated) {
  const auto with_dropout = [] {
    return Net(torch::nn::Linear(6, 8), torch::nn::Dropout(0.4), torch::nn::Tanh(),
               torch::nn::Linear(8, 1));
  };
  train::Config config = config_of(with_dropout, summed);
  const Report report = verify_config(config);
  EXPECT_TRUE(report.equal) << conclusion(report);
  EXPECT_LT(report.max_relative_error, 1e-5);
  config.model.accelerate = train::Accelerate::off;
  const Report as_written = verify_config(config);
  EXPECT_FALSE(as_written.equal) << conclusion(as_written);
  EXPECT_EQ(as_written.cause, Cause::dropout) << conclusion(as_written);
}

/// The gradient of accrue's product has an error of a thousandth.
Loss off_where_accelerated(Net& net, const batch::MicroBatch& micro) {
  const at::Tensor y = net->forward(micro.inputs);
  const auto& node = y.grad_fn();
  const bool is_accrues = node && node->name().find("ForeignProduct") != std::string::npos;
  const at::Tensor same = is_accrues ? y + 1e-3 * (y - y.detach()) : y;
  const at::Tensor wrong = same - micro.targets.to(y.scalar_type());
  return {.sum = wrong.square().sum(), .weight = static_cast<double>(wrong.numel())};
}

TEST_F(CustomModelProof, NamesAnAccelerationThatIsForcedAndWrong) {
  train::Config config = config_of(plain, off_where_accelerated);
  EXPECT_TRUE(verify_config(config).equal) << "auto does not take it";
  config.model.accelerate = train::Accelerate::on;
  const Report report = verify_config(config);
  EXPECT_FALSE(report.equal) << conclusion(report);
}

TEST_F(CustomModelProof, NamesABatchNormalisationInside) {
  const auto with_norm = [] {
    return Net(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 1));
  };
  const Report report = verify_config(config_of(with_norm, summed));
  EXPECT_FALSE(report.equal) << conclusion(report);
}

/// Squares over all rows, and over those with a positive target, each with the number of its
/// rows.
std::vector<Loss> two_losses(Net& net, const batch::MicroBatch& micro) {
  const at::Tensor squares =
      (net->forward(micro.inputs) - micro.targets.to(micro.inputs.scalar_type())).square();
  const at::Tensor counts = micro.targets.gt(0).to(squares.scalar_type());
  return {{.sum = squares.sum(), .weight = static_cast<double>(squares.numel())},
          {.sum = (squares * counts).sum(), .weight = counts.sum().item<double>()}};
}

/// The same, except that the second loss is the mean of its micro-batch.
std::vector<Loss> with_a_mean(Net& net, const batch::MicroBatch& micro) {
  std::vector<Loss> losses = two_losses(net, micro);
  losses[1].sum = losses[1].sum / std::max(losses[1].weight, 1.0);
  return losses;
}

TEST_F(CustomModelProof, ProvesSeveralLossesEachByItsDenominator) {
  const auto proof_of = [&](auto losses_fn) {
    const auto all = [](const batch::MicroBatch& micro) {
      return static_cast<double>(micro.targets.numel());
    };
    const auto positive = [](const batch::MicroBatch& micro) {
      return micro.targets.gt(0).sum().item<double>();
    };
    train::Custom custom = *config_of(plain, summed).custom;
    custom.model = [=](const train::Config& config) {
      torch::manual_seed(config.run.seed);
      return train::trainable(plain(), losses_fn,
                              {{.name = "all", .weight = all},
                               {.name = "positive", .coefficient = 0.5, .weight = positive}});
    };
    return verify_config(train::with_custom(config_of(plain, summed), std::move(custom)));
  };
  const Report sound = proof_of(two_losses), planted = proof_of(with_a_mean);
  EXPECT_TRUE(sound.equal) << conclusion(sound);
  EXPECT_FALSE(planted.equal) << conclusion(planted);
}

class OwnBatchProof : public CustomModelProof {
 protected:
  template <class LossFn>
  train::Config config_of_rows(LossFn loss_fn) const {
    train::Config c = config_of(plain, summed);
    const auto fetch = [](std::span<const std::int64_t> indices) {
      const at::Tensor places = data::detail::numbers_of(indices).to(at::kFloat).unsqueeze(1);
      return Rows{(places * 6 + at::arange(6, at::kFloat)).sin(), places.cos()};
    };
    return train::with_custom(
        c, {.model =
                [loss_fn](const train::Config& config) {
                  torch::manual_seed(config.run.seed);
                  return train::trainable(plain(), loss_fn);
                },
            .train = data::own_source<Rows>({.size = 42, .fetch = fetch, .identity = "rows"})});
  }
  static Loss summed_of_rows(Net& net, const Rows& rows) {
    const at::Tensor wrong = net->forward(rows.inputs) - rows.targets;
    return {.sum = wrong.square().sum(), .weight = static_cast<double>(wrong.numel())};
  }
};

TEST_F(OwnBatchProof, PassesALossOfSums) {
  const Report report = verify_config(config_of_rows(summed_of_rows));
  EXPECT_TRUE(report.equal) << conclusion(report);
}

TEST_F(OwnBatchProof, NamesAMeanOfMeans) {
  const Report report = verify_config(config_of_rows([](Net& net, const Rows& rows) {
    const Loss loss = summed_of_rows(net, rows);
    return Loss{.sum = loss.sum / loss.weight, .weight = 1};
  }));
  EXPECT_FALSE(report.equal) << conclusion(report);
}

}  // namespace
}  // namespace accrue::proof
