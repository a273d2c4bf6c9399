#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <fstream>
#include <numeric>

#include "accrue/core/error.h"
#include "accrue/data/own_source.h"
#include "accrue/train/batch_slice.h"
#include "train/tiny_run.h"

namespace accrue::train {

/// Bags of unequal sizes, one behind the other: no dimension is that of samples.
struct Bags {
  at::Tensor words, begins;   ///< [words of all], [B]
  at::Tensor scales, labels;  ///< fp32 [B], [B]
};
Bags batch_in_double(const Bags& bags) {
  Bags converted = bags;
  converted.scales = bags.scales.to(at::kDouble);
  return converted;
}
std::int64_t batch_size(const Bags& bags) { return bags.begins.size(0); }

/// The same without a way into fp64.
struct OtherBags {
  Bags bags;
};

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t samples = 30, batch_samples = 12, vocabulary = 9, classes = 3;

Bags bags_of(std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> words, begins, labels;
  std::vector<float> scales;
  for (const std::int64_t i : indices) {
    begins.push_back(std::ssize(words));
    for (std::int64_t word = 0; word <= i % 4; ++word) words.push_back((i * 5 + word) % vocabulary);
    scales.push_back(0.5F + 0.25F * static_cast<float>(i % 5));
    labels.push_back(i * 7 % classes);
  }
  return {at::tensor(words), at::tensor(begins), at::tensor(scales), at::tensor(labels)};
}

std::shared_ptr<const data::Source> all_bags(const std::string& identity = "bags 1") {
  return data::own_source<Bags>({.size = samples, .fetch = bags_of, .identity = identity});
}

struct NetImpl : torch::nn::Module {
  NetImpl()
      : embed(torch::nn::EmbeddingBagOptions(vocabulary, 6).mode(torch::kSum)), head(6, classes) {
    register_module("embed", embed);
    register_module("head", head);
    const at::NoGradGuard no_grad;
    double value = 0.1;
    for (at::Tensor& parameter : this->parameters())
      parameter.copy_(at::arange(parameter.numel()).view_as(parameter).mul(value += 0.07).sin() /
                      2);
  }
  at::Tensor forward(const Bags& bags) {
    return head(embed(bags.words, bags.begins).tanh() * bags.scales.unsqueeze(1));
  }
  torch::nn::EmbeddingBag embed;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

Loss summed_loss(Net& net, const Bags& bags) {
  using Options = torch::nn::functional::CrossEntropyFuncOptions;
  return {.sum = torch::nn::functional::cross_entropy(net->forward(bags), bags.labels,
                                                      Options().reduction(torch::kSum)),
          .weight = static_cast<double>(bags.labels.size(0))};
}

Loss mean_of_micro_batch(Net& net, const Bags& bags) {
  const Loss loss = summed_loss(net, bags);
  return {.sum = loss.sum / loss.weight, .weight = 1};
}

class OwnBatchRun : public testing::TinyRun {
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
  void start_anew() const { std::filesystem::remove_all(config().run.out); }
};

/// The same steps by libtorch alone, each over its whole batch but the samples `left_out`.
std::vector<at::Tensor> trained_by_libtorch(std::int64_t steps,
                                            std::span<const std::int64_t> left_out = {}) {
  Net net;
  net->to(torch::kFloat64);
  std::int64_t begin = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t end = std::min(begin + batch_samples, samples);
    std::vector<std::int64_t> indices;
    for (std::int64_t i = begin; i < end; ++i)
      if (std::ranges::find(left_out, i) == left_out.end()) indices.push_back(i);
    const Bags batch = batch_in_double(bags_of(indices));
    net->zero_grad();
    torch::nn::functional::cross_entropy(net->forward(batch), batch.labels).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.sub_(0.3 * parameter.grad());
    begin = end == samples ? 0 : end;
  }
  return net->parameters();
}

double largest_difference(const Net& net, const std::vector<at::Tensor>& expected) {
  const std::vector<at::Tensor> parameters = net->parameters();
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, (parameters[i] - expected[i]).abs().max().item<double>());
  return largest;
}

TEST_F(OwnBatchRun, StepsAsLibtorchDoesOverTheWholeBatch) {
  const std::vector<at::Tensor> expected = trained_by_libtorch(7);
  for (const std::optional<std::int64_t> micro :
       {std::optional<std::int64_t>(1), std::optional<std::int64_t>(5),
        std::optional<std::int64_t>(12), std::optional<std::int64_t>()}) {
    start_anew();
    Net net;
    Trainer(config_of_steps(7, micro), net, summed_loss, all_bags()).run();
    EXPECT_LT(largest_difference(net, expected), 1e-12) << micro.value_or(0);
  }
  start_anew();
  Net wrong;
  Trainer(config_of_steps(7, 5), wrong, mean_of_micro_batch, all_bags()).run();
  EXPECT_GT(largest_difference(wrong, expected), 1e-3)
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
    EXPECT_LT(largest_difference(net, expected), 1e-12);
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
  EXPECT_EQ(largest_difference(resumed, straight->parameters()), 0);
  c.run.steps = 9;
  EXPECT_THROW(Trainer(c, Net(), summed_loss, all_bags("bags 2")).run({.resume = true}), Error);
}

/// A gradient that is not finite is found at commit: what was committed before is made again.
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
  EXPECT_LT(largest_difference(net, trained_by_libtorch(1, left_out)), 1e-12);
  EXPECT_GT(largest_difference(net, trained_by_libtorch(1)), 1e-4);
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
              AllOf(HasSubstr("accrue::train::Bags"), HasSubstr("MicroBatch alone"),
                    HasSubstr("own_source<accrue::train::Bags>")));
  const auto of_others = data::own_source<OtherBags>(
      {.size = samples,
       .fetch = [](std::span<const std::int64_t> indices) { return OtherBags{bags_of(indices)}; },
       .identity = "others"});
  EXPECT_THAT(refusal([&] { Trainer(c, Net(), summed_loss, of_others).run(); }),
              HasSubstr("one that makes a accrue::train::OtherBags"));
  const auto unconverted = [](Net& net, const OtherBags& batch) {
    return summed_loss(net, batch.bags);
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
              HasSubstr("a batch of 4 samples, received one of 3"));
  EXPECT_THAT(refusal([&] { data::own_source<Bags>({.size = samples, .identity = "none"}); }),
              HasSubstr("no function"));
  const batch::MicroBatch carrier{.inputs = at::zeros({2}), .own = batch::OwnBatch::of(Bags{})};
  EXPECT_THAT(refusal([&] { batch_size(carrier); }), HasSubstr("batch_slice beside its type"));
}

}  // namespace
}  // namespace accrue::train
