#include <gmock/gmock.h>

#include <stdexcept>

#include "accrue/core/error.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/workload/custom_run.h"

namespace accrue::train::custom_run {
namespace {

using accrue::testing::error_of;
using ::testing::HasSubstr;

/// The samples one after the other, as a stream.
std::shared_ptr<const data::Source> streamed(std::vector<std::int64_t>& opened) {
  const auto open = [&opened](std::int64_t position) -> data::StreamSamples::Next {
    opened.push_back(position);
    return [at = position](std::int64_t count) mutable {
      const std::int64_t begin = at;
      at = std::min(at + count, samples);
      return batch::MicroBatch{.inputs = all_inputs().slice(0, begin, at),
                               .targets = all_targets().slice(0, begin, at)};
    };
  };
  return data::stream_source(
      {.size = samples, .open = open, .keep = batch_samples, .identity = "streamed"});
}

TEST_F(CustomRun, ReadsAStreamAsItReadsTheSameSamplesFromMemory) {
  const auto train = [&](std::int64_t steps, std::shared_ptr<const data::Source> source,
                         bool resumes) {
    Net net;
    Config c = config_of_steps(steps, 5);
    Trainer(c, net, summed_loss, std::move(source)).run({.resume = resumes});
    return net->parameters();
  };
  const std::vector<at::Tensor> expected = train(7, all_samples(), false);
  std::vector<std::int64_t> opened;
  std::filesystem::remove_all(config().run.out);
  EXPECT_EQ(largest_difference(train(7, streamed(opened), false), expected), 0);
  EXPECT_THAT(opened, ::testing::ElementsAre(0, 0, 0)) << "once an epoch";
  std::filesystem::remove_all(config().run.out);
  opened.clear();
  train(4, streamed(opened), false);
  opened.clear();
  EXPECT_EQ(largest_difference(train(7, streamed(opened), true), expected), 0);
  EXPECT_EQ(opened.front(), 12) << "where the second window of the second epoch begins";
}

TEST_F(CustomRun, RefusesAnotherOrderOfAStream) {
  std::vector<std::int64_t> opened;
  Config shuffled = config_of_steps(2, 4);
  shuffled.data.order = batch::Order::shuffle;
  EXPECT_THAT(error_of([&] { Trainer(shuffled, Net(), summed_loss, streamed(opened)); }),
              HasSubstr("data.order of a stream"));
  Config held_out = config_of_steps(2, 4);
  held_out.data.val_fraction = 0.1;
  EXPECT_THAT(error_of([&] { Trainer(held_out, Net(), summed_loss, streamed(opened)); }),
              HasSubstr("data.val_fraction of a stream"));
}

/// The events of a run of `steps` whose name is `name`.
template <class Model, class LossFn>
std::vector<std::string> told_of(const std::string& name, const Config& c, Model model,
                                 LossFn loss_fn) {
  std::filesystem::remove_all(c.run.out);
  const auto recorder = std::make_shared<testing::Recorder>();
  Trainer trainer(c, std::move(model), std::move(loss_fn), all_samples());
  trainer.add_observer(recorder);
  trainer.run();
  std::vector<std::string> reasons;
  for (const Event& event : recorder->events)
    if (event.name == name) reasons.push_back(event.reason);
  return reasons;
}

TEST_F(CustomRun, SaysOnceWhichParametersNoLossReaches) {
  Net spare;
  spare->register_module("spare", torch::nn::Linear(2, 2));
  const std::vector<std::string> told =
      told_of("unused", config_of_steps(3, 4), spare, summed_loss);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0], HasSubstr("depends on 'spare.weight' and 'spare.bias' (of 6 parameters)"));
  EXPECT_TRUE(told_of("unused", config_of_steps(3, 4), Net(), summed_loss).empty());
}

TEST_F(CustomRun, SaysOnceThatLossesLookLikeMeans) {
  const std::vector<std::string> told =
      told_of("loss_weight", config_of_steps(3, 4), Net(), mean_of_micro_batch);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0],
              HasSubstr("each of the first window's 3 micro-batches has a loss of weight"));
  EXPECT_TRUE(told_of("loss_weight", config_of_steps(3, 4), Net(), summed_loss).empty());
  EXPECT_TRUE(told_of("loss_weight", config_of_steps(3, 1), Net(), summed_loss).empty())
      << "of one sample a weight of 1 is a count";
}

TEST_F(CustomRun, ALossThatChangesTheModelIsNamedWithTheParameter) {
  const auto changes = [](Net& net, const batch::MicroBatch& micro) {
    {
      const at::NoGradGuard no_grad;
      net->second->bias.add_(0.1);
    }
    return summed_loss(net, micro);
  };
  EXPECT_THAT(
      error_of([&] { Trainer(config_of_steps(2, 4), Net(), changes, all_samples()).run(); }),
      HasSubstr("a changed parameter, as by step() of an optimizer: 'second.bias'"));
}

TEST_F(CustomRun, ASourceThatIsShorterThanItSaysIsNamed) {
  const auto shorter = [](std::span<const std::int64_t> indices) {
    if (indices.back() >= 20) throw std::out_of_range("there are 20 rows");
    const std::int64_t rows = std::ssize(indices);
    return batch::MicroBatch{.inputs = all_inputs().narrow(0, indices.front(), rows),
                             .targets = all_targets().narrow(0, indices.front(), rows)};
  };
  const std::string message = error_of([&] {
    Trainer(config_of_steps(3, 4), Net(), summed_loss,
            data::own_source({.size = samples, .fetch = shorter, .identity = "shorter"}))
        .run();
  });
  EXPECT_THAT(message, HasSubstr("expected samples 20 to 23 of the 30 that there are, received an "
                                 "exception: there are 20 rows"));
}

TEST_F(CustomRun, ASourceThatDoesNotLookAtItsIndicesIsRemarkedOn) {
  const auto same = [](std::span<const std::int64_t> indices) {
    const std::int64_t rows = std::ssize(indices);
    return batch::MicroBatch{.inputs = all_inputs().narrow(0, 0, rows),
                             .targets = all_targets().narrow(0, 0, rows)};
  };
  const auto remarks = [&](std::shared_ptr<const data::Source> source) {
    return Trainer(config_of_steps(3, 4), Net(), summed_loss, std::move(source)).plan().remarks;
  };
  EXPECT_THAT(remarks(data::own_source({.size = samples, .fetch = same, .identity = "same"})),
              ::testing::Contains(HasSubstr("samples 0, 15 and 29 have the same inputs")));
  EXPECT_THAT(remarks(all_samples()), ::testing::Not(::testing::Contains(HasSubstr("the same"))));
}

TEST_F(CustomRun, RefusesWhatCannotBeTrained) {
  const auto refusal = [&](const auto& begin) {
    std::filesystem::remove_all(config().run.out);
    try {
      begin();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return std::string(error.what());
    }
    return std::string("none");
  };
  const Config c = config_of_steps(2, 4);
  EXPECT_THAT(refusal([&] { Trainer(c, Net(), summed_loss); }), HasSubstr("data.train"));
  Net frozen;
  for (at::Tensor& parameter : frozen->parameters()) parameter.requires_grad_(false);
  EXPECT_THAT(refusal([&] { Trainer(c, frozen, summed_loss, all_samples()); }),
              HasSubstr("all of them frozen"));
  Net elsewhere;
  elsewhere->register_parameter("far", at::empty({2}, at::TensorOptions().device(at::kMeta)));
  EXPECT_THAT(refusal([&] { Trainer(c, elsewhere, summed_loss, all_samples()); }),
              HasSubstr("one device"));
  const auto not_summed = [](Net& net, const batch::MicroBatch& micro) {
    return Loss{.sum = net->forward(micro.inputs), .weight = 4};
  };
  EXPECT_THAT(refusal([&] { Trainer(c, Net(), not_summed, all_samples()).run(); }),
              HasSubstr("the number of its terms"));
  const auto less = [](std::span<const std::int64_t> indices) {
    const auto rows = static_cast<std::int64_t>(indices.size()) - 1;
    return batch::MicroBatch{.inputs = all_inputs().narrow(0, 0, rows)};
  };
  EXPECT_THAT(refusal([&] {
                Trainer(c, Net(), summed_loss,
                        data::own_source({.size = samples, .fetch = less, .identity = "less"}))
                    .run();
              }),
              HasSubstr("a row for each of 1 sample"));
  EXPECT_THAT(refusal([&] { data::own_source({.size = samples, .fetch = less}); }),
              HasSubstr("no identity"));
  EXPECT_THAT(refusal([&] { data::tensor_source(all_inputs(), all_targets().slice(0, 1)); }),
              HasSubstr("30 inputs and 29 targets"));
  Config alone = c;
  alone.model.kind = ModelKind::custom;
  alone.data.train = {(folder_ / "text.txt").string()};
  EXPECT_THAT(refusal([&] { Trainer{alone}; }), HasSubstr("the program that brings the model"));
}

}  // namespace
}  // namespace accrue::train::custom_run
