#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <numeric>

#include "accrue/core/error.h"
#include "accrue/data/own_source.h"
#include "accrue/train/custom.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using accrue::testing::error_of;
using ::testing::HasSubstr;

constexpr std::int64_t samples = 30, batch_samples = 12, inputs = 5, classes = 3;

struct NetImpl : torch::nn::Module {
  NetImpl() : first(inputs, 8), second(8, classes) {
    register_module("first", first);
    register_module("second", second);
    const at::NoGradGuard no_grad;
    double value = 0.1;
    for (at::Tensor& parameter : this->parameters())
      parameter.copy_(at::arange(parameter.numel()).view_as(parameter).mul(value += 0.07).sin() /
                      2);
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }

  torch::nn::Linear first, second;
};
TORCH_MODULE(Net);

using Summed = torch::nn::functional::CrossEntropyFuncOptions;

Loss summed_loss(Net& net, const batch::MicroBatch& micro) {
  return {.sum = torch::nn::functional::cross_entropy(net->forward(micro.inputs), micro.targets,
                                                      Summed().reduction(torch::kSum)),
          .weight = static_cast<double>(micro.targets.size(0))};
}

/// What many loops do: the mean of each micro-batch, which counts as one.
Loss mean_of_micro_batch(Net& net, const batch::MicroBatch& micro) {
  const Loss loss = summed_loss(net, micro);
  return {.sum = loss.sum / loss.weight, .weight = 1};
}

at::Tensor all_inputs() {
  return at::arange(samples * inputs, at::kDouble).mul(0.37).sin().view({samples, inputs});
}
at::Tensor all_targets() { return at::arange(samples).mul(7).remainder(classes); }
std::shared_ptr<const data::Source> all_samples() {
  return data::tensor_source(all_inputs(), all_targets());
}

class CustomRun : public testing::TinyRun {
 protected:
  Config config_of_steps(std::int64_t steps, std::optional<std::int64_t> micro) const {
    Config c = config();
    c.run.steps = steps;
    c.data.train.clear();
    c.data.val_fraction = 0;
    c.data.order = batch::Order::sequential;
    c.batch = {.samples = batch_samples, .micro = micro};
    c.precision.compute = models::Compute::fp64;
    c.optim = {.kind = OptimizerKind::sgd, .lr = 0.3, .weight_decay = 0, .momentum = 0};
    c.optim.clip = 0;
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    return c;
  }
};

/// The same steps by libtorch alone, each over its whole batch at once.
std::vector<at::Tensor> trained_by_libtorch(std::int64_t steps, double lr) {
  Net net;
  net->to(torch::kFloat64);
  std::int64_t begin = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t end = std::min(begin + batch_samples, samples);
    const at::Tensor loss = torch::nn::functional::cross_entropy(
        net->forward(all_inputs().slice(0, begin, end)), all_targets().slice(0, begin, end));
    net->zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.sub_(lr * parameter.grad());
    begin = end == samples ? 0 : end;
  }
  return net->parameters();
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

TEST_F(CustomRun, StepsAsLibtorchDoesOverTheWholeBatch) {
  const std::vector<at::Tensor> expected = trained_by_libtorch(7, 0.3);
  for (const std::optional<std::int64_t> micro :
       {std::optional<std::int64_t>(1), std::optional<std::int64_t>(5),
        std::optional<std::int64_t>(12), std::optional<std::int64_t>()}) {
    std::filesystem::remove_all(config().run.out);
    Net net;
    Trainer(config_of_steps(7, micro), net, summed_loss, all_samples()).run();
    EXPECT_LT(largest_difference(net->parameters(), expected), 1e-12) << micro.value_or(0);
  }
  std::filesystem::remove_all(config().run.out);
  Net wrong;
  Trainer(config_of_steps(7, 5), wrong, mean_of_micro_batch, all_samples()).run();
  EXPECT_GT(largest_difference(wrong->parameters(), expected), 1e-3)
      << "means of micro-batches of 5, 5 and 2 samples";
}

Custom with_torch_optimizer(const Net& net) {
  return {.model = [net](const Config&) { return trainable(net, summed_loss); },
          .train = all_samples(),
          .optimizer =
              [](std::vector<at::Tensor> parameters) {
                return std::make_unique<torch::optim::AdamW>(
                    std::move(parameters), torch::optim::AdamWOptions(0.05).weight_decay(0.1));
              }};
}

TEST_F(CustomRun, StepsByAnOptimizerOfLibtorch) {
  Net expected;
  expected->to(torch::kFloat64);
  torch::optim::AdamW plain(expected->parameters(),
                            torch::optim::AdamWOptions(0.05).weight_decay(0.1));
  for (const auto& [begin, end] : {std::pair{0, 12}, {12, 24}, {24, 30}, {0, 12}}) {
    plain.zero_grad();
    torch::nn::functional::cross_entropy(expected->forward(all_inputs().slice(0, begin, end)),
                                         all_targets().slice(0, begin, end))
        .backward();
    plain.step();
  }
  Net net, resumed;
  Trainer(config_of_steps(4, 5), with_torch_optimizer(net)).run();
  EXPECT_LT(largest_difference(net->parameters(), expected->parameters()), 1e-12);
  Config c = config_of_steps(2, 5);
  c.run.out = (folder_ / "broken").string();
  Trainer(c, with_torch_optimizer(Net())).run();
  c.run.steps = 4;
  Trainer(c, with_torch_optimizer(resumed)).run({.resume = true});
  EXPECT_EQ(largest_difference(net->parameters(), resumed->parameters()), 0);
}

TEST_F(CustomRun, GoesOnFromACheckpointWithTheSameBits) {
  Config c = config_of_steps(8, 5);
  c.optim = {.kind = OptimizerKind::adamw};
  c.optim.schedule.kind = optim::ScheduleKind::constant;
  Net straight, begun, resumed;
  Trainer(c, straight, summed_loss, all_samples()).run();
  c.run.out = (folder_ / "broken").string();
  c.run.steps = 4;
  Trainer(c, begun, summed_loss, all_samples()).run();
  c.run.steps = 8;
  Trainer(c, resumed, summed_loss, all_samples()).run({.resume = true});
  EXPECT_EQ(largest_difference(resumed->parameters(), straight->parameters()), 0);
  EXPECT_GT(largest_difference(begun->parameters(), straight->parameters()), 0);
  const auto other = data::tensor_source(all_inputs() + 1e-9, all_targets());
  c.run.steps = 9;
  EXPECT_THROW(Trainer(c, Net(), summed_loss, other).run({.resume = true}), Error)
      << "the data are others";
}

/// Cross-entropy over all samples, and squares of the logits of those whose target is 0.
std::vector<Loss> two_losses(Net& net, const batch::MicroBatch& micro) {
  const at::Tensor logits = net->forward(micro.inputs);
  const at::Tensor counts = micro.targets.eq(0).to(logits.scalar_type());
  return {{.sum = torch::nn::functional::cross_entropy(logits, micro.targets,
                                                       Summed().reduction(torch::kSum)),
           .weight = static_cast<double>(micro.targets.size(0))},
          {.sum = (logits.square().sum(1) * counts).sum(), .weight = counts.sum().item<double>()}};
}

TEST_F(CustomRun, GivesEachOfSeveralLossesItsDenominator) {
  Net expected;
  expected->to(torch::kFloat64);
  for (const auto& [begin, end] : {std::pair{0, 12}, {12, 24}, {24, 30}}) {
    const std::vector<Loss> losses =
        two_losses(expected, {.inputs = all_inputs().slice(0, begin, end),
                              .targets = all_targets().slice(0, begin, end)});
    expected->zero_grad();
    (losses[0].sum / losses[0].weight + 0.25 * losses[1].sum / losses[1].weight).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : expected->parameters()) parameter.sub_(0.3 * parameter.grad());
  }
  const auto zeros = [](const batch::MicroBatch& micro) {
    return micro.targets.eq(0).sum().item<double>();
  };
  const auto all = [](const batch::MicroBatch& micro) {
    return static_cast<double>(micro.targets.size(0));
  };
  for (const std::int64_t micro : {1, 5, 12}) {
    std::filesystem::remove_all(config().run.out);
    Net net;
    Trainer(config_of_steps(3, micro),
            trainable(net, two_losses,
                      {{.name = "classes", .weight = all},
                       {.name = "squares", .coefficient = 0.25, .weight = zeros}}),
            all_samples())
        .run();
    EXPECT_LT(largest_difference(net->parameters(), expected->parameters()), 1e-12) << micro;
  }
  EXPECT_THROW(trainable(Net(), two_losses, {{.name = "a", .weight = all}, {.name = "b"}}), Error)
      << "no weight to know beforehand";
}

TEST_F(CustomRun, EvaluatesOnTheProgramsData) {
  Config c = config_of_steps(3, 4);
  Net net;
  const RunResult result = Trainer(c, net, summed_loss, all_samples(), all_samples()).run();
  const at::NoGradGuard no_grad;
  const at::Tensor expected =
      torch::nn::functional::cross_entropy(net->forward(all_inputs()), all_targets());
  ASSERT_TRUE(result.eval_loss.has_value());
  EXPECT_NEAR(*result.eval_loss, expected.item<double>(), 1e-12);
}

TEST_F(CustomRun, TakesAChainThatIsCutAtItsBatchNorms) {
  const auto network = [] {
    torch::manual_seed(3);
    return torch::nn::Sequential(torch::nn::Linear(inputs, 8), torch::nn::BatchNorm1d(8),
                                 torch::nn::Tanh(), torch::nn::Linear(8, classes));
  };
  const auto loss = [](const at::Tensor& output, const batch::MicroBatch& micro) {
    return Loss{.sum = torch::nn::functional::cross_entropy(output, micro.targets,
                                                            Summed().reduction(torch::kSum)),
                .weight = static_cast<double>(micro.targets.size(0))};
  };
  std::vector<std::vector<at::Tensor>> trained;
  for (const std::int64_t micro : {12, 5}) {
    std::filesystem::remove_all(config().run.out);
    Config c = config_of_steps(4, micro);
    c.model.batchnorm = models::BatchNormPolicy::exact;
    torch::nn::Sequential net = network();
    Trainer(c, models::from_sequential(net, loss, "network"), all_samples()).run();
    trained.push_back(net->parameters());
  }
  EXPECT_LT(largest_difference(trained[0], trained[1]), 1e-12);
}

/// The same steps under libtorch's autocasting, whose gradients are added up in fp32.
TEST_F(CustomRun, InBf16StepsAsAutocastingDoes) {
  Net expected;
  for (const auto& [begin, end] : {std::pair{0, 12}, {12, 24}, {24, 30}}) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor logits = expected->forward(all_inputs().to(at::kFloat).slice(0, begin, end));
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    expected->zero_grad();
    torch::nn::functional::cross_entropy(logits.to(at::kFloat), all_targets().slice(0, begin, end))
        .backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : expected->parameters()) parameter.sub_(0.3 * parameter.grad());
  }
  const Net start;
  for (const Accelerate accelerate : {Accelerate::on, Accelerate::off})
    for (const std::int64_t micro : {5, 12}) {
      std::filesystem::remove_all(config().run.out);
      Config c = config_of_steps(3, micro);
      c.precision.compute = models::Compute::bf16;
      c.model.accelerate = accelerate;
      Net net;
      Trainer(c, net, summed_loss, all_samples()).run();
      EXPECT_EQ(net->first->weight.scalar_type(), at::kFloat);
      const double way = largest_difference(start->parameters(), expected->parameters());
      EXPECT_LT(largest_difference(net->parameters(), expected->parameters()), way / 32) << micro;
    }
  Net fp32;
  std::filesystem::remove_all(config().run.out);
  Config c = config_of_steps(3, 12);
  c.precision.compute = models::Compute::fp32;
  Trainer(c, fp32, summed_loss, all_samples()).run();
  EXPECT_GT(largest_difference(fp32->parameters(), expected->parameters()), 1e-5)
      << "operands are rounded";
}

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
}  // namespace accrue::train
