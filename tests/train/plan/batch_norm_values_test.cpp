// model.batchnorm = "micro" if a micro-batch has only one value per channel.
#include "train/plan/batch_norm_values.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "accrue/data/own_source.h"
#include "accrue/models/class_loss.h"
#include "accrue/models/torch_module.h"
#include "accrue/train/custom.h"
#include "support/errors.h"
#include "train/own_network.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t inputs = 5, classes = 3;

class OneValuePerChannel : public testing::TinyRun {
 protected:
  static torch::nn::Sequential network() {
    return torch::nn::Sequential(torch::nn::Linear(inputs, 4), torch::nn::BatchNorm1d(4),
                                 torch::nn::Linear(4, classes));
  }
  static Custom on_samples(std::int64_t samples, const torch::nn::Sequential& net) {
    return {.model =
                [net](const Config&) {
                  return models::from_sequential(net, models::class_cross_entropy, "net");
                },
            .train = data::tensor_source(at::rand({samples, inputs}),
                                         at::arange(samples).remainder(classes))};
  }
  Config micro_of(std::int64_t micro) const {
    Config c = testing::by_descent(config(), 2, 12, micro);
    c.model.batchnorm = models::BatchNormPolicy::micro;
    return c;
  }
  static std::string refusal(const Config& c, std::int64_t samples) {
    return usage_message([&] { Trainer(c, on_samples(samples, network())).run(); });
  }
};

/// 13 samples in batches of 12: the second step has one sample.
TEST_F(OneValuePerChannel, IsRefusedBeforeTheRunBegins) {
  for (const std::int64_t micro : {12, 6, 5}) {
    const Config c = micro_of(micro);
    EXPECT_THAT(refusal(c, 13), AllOf(HasSubstr("model.batchnorm = \"micro\": expected at least 2 "
                                                "samples in each micro-batch"),
                                      HasSubstr("one of 1 sample in step 2, of 1 sample")))
        << micro;
    EXPECT_FALSE(std::filesystem::exists(c.run.out)) << "nothing was written";
  }
  EXPECT_THAT(refusal(micro_of(1), 24), HasSubstr("one of 1 sample in step 1, of 12 samples"));
  EXPECT_THAT(refusal(micro_of(11), 24), HasSubstr("in micro-batches of 11"));
}

TEST_F(OneValuePerChannel, IsNoMatterWhereEachMicroBatchHasTwo) {
  for (const auto& [micro, samples] : {std::pair(12, 14), std::pair(5, 24), std::pair(5, 36)}) {
    Config c = micro_of(micro);
    c.run.out += std::to_string(micro) + "of" + std::to_string(samples);
    const torch::nn::Sequential net = network();
    EXPECT_NO_THROW(Trainer(c, on_samples(samples, net)).run());
    for (const auto& buffer : net->named_buffers())
      EXPECT_TRUE(at::isfinite(buffer.value()).all().item<bool>()) << buffer.key();
  }
  Config dropped = micro_of(12);
  dropped.batch.last = batch::LastWindow::drop;
  EXPECT_NO_THROW(Trainer(dropped, on_samples(13, network())).run());
}

/// A micro-batch that the plan chooses has at least two samples.
TEST_F(OneValuePerChannel, IsLeftOutOfAPlan) {
  Config c = micro_of(5);
  c.batch.micro.reset();
  const torch::nn::Sequential net = network();
  EXPECT_GT(Trainer(c, on_samples(24, net)).plan().micro_batch, 1);
  const auto statistics = net->named_buffers();
  EXPECT_EQ(statistics["1.num_batches_tracked"].item<std::int64_t>(), 0) << "as they were";
}

/// Only noticed during the run: the second batch has one sample. PyTorch's layer refuses it, too.
TEST_F(OneValuePerChannel, IsRefusedBeforeTheStepThatHasIt) {
  Config c = micro_of(12);
  c.batch.schedule_unit = BatchUnit::samples;
  c.batch.schedule = {{.at = {0}, .size = 12}, {.at = {1}, .size = 1}};
  torch::nn::Sequential net = network();
  EXPECT_THAT(usage_message([&] { Trainer(c, on_samples(24, net)).run(); }),
              HasSubstr("received one of 1 sample in step 2; try"));
  for (const auto& buffer : net->named_buffers())
    EXPECT_TRUE(at::isfinite(buffer.value()).all().item<bool>()) << buffer.key();
  net->to(torch::kFloat32);
  EXPECT_THROW(net->forward(at::rand({1, inputs})), c10::Error);
}

/// Statistics of the whole batch do not require two samples in a micro-batch.
TEST_F(OneValuePerChannel, IsNoMatterForTheWholeBatch) {
  Config c = micro_of(1);
  c.model.batchnorm = models::BatchNormPolicy::exact;
  EXPECT_NO_THROW(Trainer(c, on_samples(24, network())).run());
  c.run.out += "-planned";
  c.batch.micro.reset();
  EXPECT_NO_THROW(Trainer(c, on_samples(24, network())).run());
}

}  // namespace
}  // namespace accrue::train
