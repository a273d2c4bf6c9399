#include "train/workload/custom_run.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <csignal>
#include <numeric>

#include "accrue/core/error.h"
#include "train/recorder.h"

namespace accrue::train::custom_run {
namespace {

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

/// Statistics of micro-batches are kept with a window's middle; in an exact window no micro-batch
/// is done before the others.
TEST_F(CustomRun, WithBatchNormsIsKeptInItsWindowOrBeginsThatAgain) {
  const auto loss = [](const at::Tensor& output, const batch::MicroBatch& micro) {
    return Loss{.sum = torch::nn::functional::cross_entropy(output, micro.targets,
                                                            Summed().reduction(torch::kSum)),
                .weight = static_cast<double>(micro.targets.size(0))};
  };
  const auto train = [&](const Config& c, bool resume, std::shared_ptr<Observer> stops) {
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::Linear(inputs, 8), torch::nn::BatchNorm1d(8),
                              torch::nn::Tanh(), torch::nn::Linear(8, classes));
    Trainer trainer(c, models::from_sequential(net, loss, "network"), all_samples());
    const auto recorder = std::make_shared<testing::Recorder>();
    trainer.add_observer(recorder);
    if (stops) trainer.add_observer(std::move(stops));
    trainer.run({.resume = resume});
    std::vector<at::Tensor> values = net->parameters();
    for (const at::Tensor& buffer : net->buffers()) values.push_back(buffer);
    return std::pair(values, recorder);
  };
  for (const auto policy : {models::BatchNormPolicy::micro, models::BatchNormPolicy::exact}) {
    Config c = config_of_steps(4, 4);  // no micro-batch is of one sample, which has no variance
    c.model.batchnorm = policy;
    const auto straight = train(c, false, nullptr).first;
    std::filesystem::remove_all(c.run.out);
    const auto stopped =
        train(c, false, std::make_shared<testing::SignalAfter>(4, SIGTERM)).second->events;
    const bool kept = policy == models::BatchNormPolicy::micro;
    const std::string told = kept ? "1 of 3 micro-batches of step 2 are kept"
                                  : "begins step 2 again: layered accumulation";
    EXPECT_TRUE(std::ranges::any_of(stopped, [&](const Event& event) {
      return event.name == "checkpoint" && event.reason.find(told) != std::string::npos;
    })) << told;
    const auto resumed = train(c, true, nullptr).first;
    ASSERT_EQ(resumed.size(), straight.size());
    for (std::size_t i = 0; i < straight.size(); ++i)
      EXPECT_TRUE(at::equal(resumed[i], straight[i])) << i << (kept ? " micro" : " exact");
    std::filesystem::remove_all(c.run.out);
  }
}

/// Compares with the same steps under libtorch's autocasting, whose gradients are summed in fp32.
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

}  // namespace
}  // namespace accrue::train::custom_run
