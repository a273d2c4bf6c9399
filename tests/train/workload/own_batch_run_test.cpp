#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "accrue/train/batch_slice.h"
#include "train/bags.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the problem of this test
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The same, but it cannot be converted to fp64.
struct OtherBags {
  Bags bags;
};

class OwnBatchRun : public TinyRun {
 protected:
  Config config_of_steps(std::int64_t steps, std::optional<std::int64_t> micro) const {
    return with_bags(config(), steps, micro);
  }
  void start_anew() const { std::filesystem::remove_all(config().run.out); }
};

TEST_F(OwnBatchRun, StepsAsLibtorchDoesOverTheWholeBatch) {
  const std::vector<at::Tensor> expected = trained_by_libtorch(7);
  for (const std::optional<std::int64_t> micro :
       {std::optional<std::int64_t>(1), std::optional<std::int64_t>(5),
        std::optional<std::int64_t>(12), std::optional<std::int64_t>()}) {
    start_anew();
    Net net;
    Trainer(config_of_steps(7, micro), net, summed_loss, all_bags()).run();
    EXPECT_LT(largest_difference(net->parameters(), expected), 1e-12) << micro.value_or(0);
  }
  start_anew();
  Net wrong;
  Trainer(config_of_steps(7, 5), wrong, mean_of_micro_batch, all_bags()).run();
  EXPECT_GT(largest_difference(wrong->parameters(), expected), 1e-3)
      << "means of micro-batches of 5, 5 and 2 samples";
}

TEST_F(OwnBatchRun, TakesFunctionsOfAllKinds) {
  const std::vector<at::Tensor> expected = trained_by_libtorch(3);
  const auto train = [&](std::unique_ptr<models::Trainable> model) {
    start_anew();
    Trainer(config_of_steps(3, 5), std::move(model), all_bags()).run();
  };
  Net of_lambda, of_generic, of_function, of_several;
  train(trainable(of_lambda, [](Net& net, const Bags& bags) { return summed_loss(net, bags); }));
  train(trainable<Bags>(of_generic,
                        [](auto& net, const auto& bags) { return summed_loss(net, bags); }));
  train(trainable(of_function, std::function<Loss(Net&, const Bags&)>(summed_loss)));
  const auto zeros = [](const batch::MicroBatch& micro) {
    return static_cast<double>(batch_size(micro.own.as<Bags>()));
  };
  train(trainable(
      of_several,
      [](Net& net, const Bags& bags) { return std::vector<Loss>{summed_loss(net, bags)}; },
      {{.name = "classes", .weight = zeros}}));
  for (const Net& net : {of_lambda, of_generic, of_function, of_several})
    EXPECT_LT(largest_difference(net->parameters(), expected), 1e-12);
}

TEST_F(OwnBatchRun, GoesOnFromACheckpointWithTheSameBits) {
  Config c = config_of_steps(8, 5);
  c.optim = {.kind = OptimizerKind::adamw};
  c.optim.schedule.kind = optim::ScheduleKind::constant;
  Net straight, begun, resumed;
  Trainer(c, straight, summed_loss, all_bags()).run();
  c.run.out = (folder_ / "broken").string();
  c.run.steps = 4;
  Trainer(c, begun, summed_loss, all_bags()).run();
  c.run.steps = 8;
  Trainer(c, resumed, summed_loss, all_bags()).run({.resume = true});
  EXPECT_EQ(largest_difference(resumed->parameters(), straight->parameters()), 0);
  c.run.steps = 9;
  EXPECT_THROW(Trainer(c, Net(), summed_loss, all_bags("bags 2")).run({.resume = true}), Error);
}

/// A gradient that is not finite is found at commit: earlier commits are repeated.
TEST_F(OwnBatchRun, ReplaysWhatABadMicroBatchUndoes) {
  const auto poisoned = [](Net& net, const Bags& bags) {
    Loss loss = summed_loss(net, bags);
    const bool has_sample_4 = (bags.scales == 0.5F + 0.25F * 4).any().item<bool>() &&
                              bags.words.size(0) == 1 &&
                              bags.words.eq(20 % vocabulary).all().item<bool>();
    if (has_sample_4) loss.sum = loss.sum + (0 * net->head->bias.sum()).abs().sqrt();
    return loss;
  };
  Config c = config_of_steps(1, 1);
  c.batch.max_quarantined = 0.5;
  Net net;
  Trainer(c, net, poisoned, all_bags()).run();
  const std::vector<std::int64_t> left_out{4};
  EXPECT_LT(largest_difference(net->parameters(), trained_by_libtorch(1, left_out)), 1e-12);
  EXPECT_GT(largest_difference(net->parameters(), trained_by_libtorch(1)), 1e-4);
}

TEST_F(OwnBatchRun, SaysWhatDoesNotFit) {
  const auto refusal = [&](const auto& begin) {
    start_anew();
    try {
      begin();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return std::string(error.what());
    }
    return std::string("none");
  };
  const Config c = config_of_steps(2, 4);
  const auto of_tensors =
      data::tensor_source(at::ones({samples, 2}), at::zeros({samples}, at::kLong));
  EXPECT_THAT(refusal([&] { Trainer(c, Net(), summed_loss, of_tensors).run(); }),
              AllOf(HasSubstr("accrue::train::testing::Bags"), HasSubstr("MicroBatch alone"),
                    HasSubstr("own_source<accrue::train::testing::Bags>")));
  const auto of_others = data::own_source<OtherBags>(
      {.size = samples,
       .fetch = [](std::span<const std::int64_t> indices) { return OtherBags{bags_of(indices)}; },
       .identity = "others"});
  EXPECT_THAT(refusal([&] { Trainer(c, Net(), summed_loss, of_others).run(); }),
              HasSubstr("one that makes a accrue::train::(anonymous namespace)::OtherBags"));
  const auto unconverted = [](Net& net, const OtherBags& batch) {
    const at::Tensor scales = batch.bags.scales.unsqueeze(1).expand({-1, 6});
    return Loss{.sum = net->head(scales).sum(), .weight = 1.0 * batch_size(batch.bags)};
  };
  EXPECT_THAT(refusal([&] { Trainer(c, Net(), unconverted, of_others).run(); }),
              AllOf(HasSubstr("fp64"), HasSubstr("batch_in_double")));
  const auto fewer =
      data::own_source<Bags>({.size = samples,
                              .fetch =
                                  [](std::span<const std::int64_t> indices) {
                                    return bags_of(indices.subspan(0, indices.size() - 1));
                                  },
                              .identity = "fewer"});
  EXPECT_THAT(refusal([&] { Trainer(c, Net(), summed_loss, fewer).run(); }),
              HasSubstr("a batch of 1 sample, received one of 0"));
  EXPECT_THAT(refusal([&] { data::own_source<Bags>({.size = samples, .identity = "none"}); }),
              HasSubstr("no function"));
  const batch::MicroBatch carrier{.inputs = at::zeros({2}), .own = batch::OwnBatch::of(Bags{})};
  EXPECT_THAT(refusal([&] { batch_size(carrier); }), HasSubstr("batch_slice beside its type"));
}

}  // namespace
}  // namespace accrue::train
