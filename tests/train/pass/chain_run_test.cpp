// Recomputation changes memory and how often a segment runs, and it does not change the bits.

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "accrue/core/error.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/resnet.h"
#include "accrue/models/vit.h"
#include "memory/thread_meter.h"
#include "train/exact_fixture.h"

namespace accrue::train {
namespace {

using models::Compute;
using testing::MakeModel;
using testing::Result;

constexpr Recompute modes[] = {Recompute::none, Recompute::selective, Recompute::full};

struct Run {
  Result result;
  std::int64_t peak = 0;  ///< bytes allocated during the pass, in addition to earlier ones
};

Run run(const MakeModel& make, const batch::MicroBatch& micro, Recompute recompute,
        std::uint64_t seed = testing::seed) {
  const std::unique_ptr<models::Trainable> model = make();
  accum::Window window(std::make_shared<accum::GradientBuffer>(model->parameters()));
  window.open(testing::window_index);
  window.begin({.sample_ids = micro.sample_ids});
  // Low-precision copies of weights are made once per window and do not count.
  models::evaluate(*model, micro, batch::evaluation_context(micro));
  Run made;
  {
    const memory::ThreadMeter meter;
    const PassResult pass =
        forward_backward(*model, micro, batch::training_context(micro, seed, testing::window_index),
                         {.recompute = recompute});
    made.peak = meter.peak();
    window.commit(pass.loss_sum, pass.weight);
  }
  made.result = testing::collect(*model, window);
  window.discard();
  return made;
}

batch::MicroBatch tokens(std::int64_t rows, std::int64_t length, std::int64_t vocab) {
  at::manual_seed(5);
  batch::MicroBatch micro;
  micro.inputs = at::randint(vocab, {rows, length}, at::kLong);
  micro.targets = at::randint(vocab, {rows, length}, at::kLong);
  for (std::int64_t i = 0; i < rows; ++i) micro.sample_ids.push_back(100 + 7 * i);
  micro.tokens = rows * length;
  return micro;
}

/// Two samples in the first row and one in the second, with padding.
batch::MicroBatch packed_tokens(std::int64_t vocab) {
  batch::MicroBatch micro = tokens(2, 20, vocab);
  micro.sample_ids = {4, 9, 11};
  micro.spans = {{4, 0, 0, 8}, {9, 0, 8, 18}, {11, 1, 3, 10}};
  const at::Tensor targets = at::full_like(micro.targets, -100);
  for (const SampleSpan& span : micro.spans)
    targets[span.row]
        .slice(0, span.begin, span.end)
        .copy_(micro.targets[span.row].slice(0, span.begin, span.end));
  micro.targets = targets;
  micro.tokens = 25;
  return micro;
}

MakeModel gpt2(Compute compute, double dropout, std::int64_t layers = 3) {
  return [=] {
    return std::make_unique<models::Gpt2>(models::Gpt2Options{.layers = layers,
                                                              .heads = 2,
                                                              .width = 32,
                                                              .context = 16,
                                                              .vocab = 40,
                                                              .dropout = dropout,
                                                              .compute = compute});
  };
}

constexpr std::array<std::int64_t, 3> image{3, 16, 16};

MakeModel vit(Compute compute) {
  return [=] {
    return std::make_unique<models::Vit>(models::VitOptions{.layers = 3,
                                                            .heads = 2,
                                                            .width = 24,
                                                            .patches = 16,
                                                            .image = image,
                                                            .dropout = 0.2,
                                                            .compute = compute});
  };
}

MakeModel resnet(models::Norm norm) {
  return [=] {
    return std::make_unique<models::ResNet>(
        models::ResNetOptions{.layers = 14, .width = 4, .image = image, .norm = norm});
  };
}

/// Has running statistics and draws from libtorch's generator without accrue's knowledge.
struct HiddenImpl : torch::nn::Module {
  HiddenImpl() {
    norm = register_module("norm", torch::nn::BatchNorm2d(6));
    drop = register_module("drop", torch::nn::Dropout(0.3));
  }
  at::Tensor forward(const at::Tensor& x) { return x + drop(norm(x)); }
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(Hidden);

std::unique_ptr<models::Trainable> sequential_model() {
  at::manual_seed(3);
  torch::nn::Sequential net;
  net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 6, 3).padding(1)));
  net->push_back(torch::nn::BatchNorm2d(6));
  net->push_back(Hidden());
  net->push_back(torch::nn::Dropout(0.2));
  net->push_back(torch::nn::BatchNorm2d(6));
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(6 * 16 * 16, 10));
  return models::from_sequential(net, models::class_cross_entropy, "net");
}

/// A forward pass that depends on the number of its runs.
struct CountingImpl : torch::nn::Module {
  CountingImpl() : count(register_buffer("count", at::full({1}, 1.5))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor result = x * count.clone();
    count += 1;
    return result;
  }
  at::Tensor count;
};
TORCH_MODULE(Counting);

std::unique_ptr<models::Trainable> counting() {
  at::manual_seed(3);
  torch::nn::Sequential net;
  net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 6, 3).padding(1)));
  net->push_back(Counting());
  net->push_back(torch::nn::BatchNorm2d(6));
  net->push_back(Counting());
  net->push_back(torch::nn::Dropout(0.2));
  net->push_back(torch::nn::BatchNorm2d(6));
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(6 * 16 * 16, 10));
  return models::from_sequential(net, models::class_cross_entropy, "net");
}

struct RecomputeCase {
  const char* name;
  MakeModel make;
  batch::MicroBatch micro;
};

std::vector<RecomputeCase> cases() {
  const batch::MicroBatch images = testing::random_samples({5, 3, 16, 16}, 10);
  return {{"gpt2 fp32", gpt2(Compute::fp32, 0), tokens(3, 16, 40)},
          {"gpt2 fp32, dropout", gpt2(Compute::fp32, 0.2), tokens(3, 16, 40)},
          {"gpt2 bf16, dropout", gpt2(Compute::bf16, 0.2), tokens(3, 16, 40)},
          {"gpt2 fp64, dropout, packed", gpt2(Compute::fp64, 0.2), packed_tokens(40)},
          {"gpt2 bf16, dropout, packed", gpt2(Compute::bf16, 0.2), packed_tokens(40)},
          {"vit fp32, dropout", vit(Compute::fp32), images},
          {"vit bf16, dropout", vit(Compute::bf16), images},
          {"resnet, group norm", resnet(models::Norm::group), images},
          {"resnet, batch norm by micro-batch", resnet(models::Norm::batch), images},
          {"torch::nn::Sequential", sequential_model, images},
          {"torch::nn::Sequential that counts", counting, images}};
}

TEST(Recompute, DoesNotChangeABit) {
  for (const RecomputeCase& each : cases()) {
    SCOPED_TRACE(each.name);
    const Result expected = run(each.make, each.micro, Recompute::none).result;
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
      SCOPED_TRACE(to_string(recompute));
      testing::expect_same_bits(run(each.make, each.micro, recompute).result, expected);
    }
  }
}

TEST(Recompute, ItsComparisonSeesAnotherDropoutMask) {
  const MakeModel make = gpt2(Compute::fp32, 0.2);
  const batch::MicroBatch micro = tokens(3, 16, 40);
  EXPECT_GT(testing::gradient_error(run(make, micro, Recompute::full, 8).result,
                                    run(make, micro, Recompute::none, 7).result),
            1e-3);
}

TEST(Recompute, MovesRunningStatisticsOnce) {
  const batch::MicroBatch images = testing::random_samples({5, 3, 16, 16}, 10);
  for (const MakeModel& make : {resnet(models::Norm::batch), MakeModel(sequential_model)})
    for (const Recompute recompute : modes) {
      SCOPED_TRACE(to_string(recompute));
      std::int64_t layers = 0;
      for (const auto& [name, buffer] : run(make, images, recompute).result.buffers)
        if (name.ends_with("num_batches_tracked")) {
          EXPECT_EQ(buffer.item<double>(), 1) << name;
          ++layers;
        }
      EXPECT_GT(layers, 2);
    }
}

/// Bytes of activations per layer at the peak, from models of 2 and 6 layers.
double bytes_a_layer(Compute compute, Recompute recompute, const batch::MicroBatch& micro) {
  const std::int64_t few = run(gpt2(compute, 0, 2), micro, recompute).peak;
  const std::int64_t many = run(gpt2(compute, 0, 6), micro, recompute).peak;
  return static_cast<double>(many - few) / 4;
}

/// In elements per width C and token: a block keeps its input and its middle (the residual stream,
/// fp32), two normalised inputs of GEMMs, qkv (3), the attention's result, the feed-forward part's
/// pre-activation (4).
TEST(Recompute, KeepsWhatItSaysOfATransformer) {
  const batch::MicroBatch micro = tokens(16, 16, 40);
  constexpr double tokens_by_width = 16 * 16 * 32;
  // One number per head and token, and two per norm and token, in fp32.
  constexpr double sums = 16 * 16 * (2 + 2 * 2) * 4.0;
  for (const auto& [compute, bytes] :
       {std::pair(Compute::fp32, 4.0), std::pair(Compute::bf16, 2.0)}) {
    const double residual = 2 * 4 * tokens_by_width, rest = bytes * tokens_by_width;
    const double none = bytes_a_layer(compute, Recompute::none, micro);
    const double selective = bytes_a_layer(compute, Recompute::selective, micro);
    const double full = bytes_a_layer(compute, Recompute::full, micro);
    EXPECT_NEAR(none, residual + 10 * rest + sums, 0.02 * none);
    EXPECT_NEAR(selective, residual + 8 * rest + sums, 0.02 * selective);
    EXPECT_NEAR(full, residual / 2, 0.02 * full);
  }
}

TEST(Recompute, KeepsLessOfAResNet) {
  const batch::MicroBatch images = testing::random_samples({8, 3, 16, 16}, 10);
  for (const models::Norm norm : {models::Norm::group, models::Norm::batch}) {
    std::map<Recompute, std::int64_t> peak;
    for (const Recompute recompute : modes)
      peak[recompute] = run(resnet(norm), images, recompute).peak;
    EXPECT_LT(peak[Recompute::full], peak[Recompute::selective]);
    EXPECT_LT(peak[Recompute::selective], peak[Recompute::none]);
  }
}

/// A chain of five segments that records how it is run: x -> 2x, with blocks that begin at the
/// third and the fifth.
class Diary : public models::Trainable {
 public:
  NamedParameters parameters() const override { return {{"weight", weight_}}; }
  std::vector<models::Segment> segments() override {
    std::vector<models::Segment> chain;
    for (int i = 0; i < 5; ++i)
      chain.push_back({.name = std::to_string(i),
                       .forward =
                           [this, i](const models::Activations& x, const batch::MicroBatch&,
                                     const ForwardContext& context) {
                             write(i, context);
                             return models::Activations{2 * (i == 0 ? weight_ : x.at(0))};
                           },
                       .begins_block = i == 2 || i == 4,
                       .cheap_graph = i == 1});
    return chain;
  }
  std::vector<models::LossHead> losses() override {
    return {{"sum", [](const models::Activations& x, const batch::MicroBatch&,
                       const ForwardContext&, double) {
               return Loss{x.at(0).sum(), 1};
             }}};
  }

  std::string text;

 private:
  void write(int segment, const ForwardContext& context) {
    text += (text.empty() ? "" : " ") + std::to_string(segment);
    if (!at::GradMode::is_enabled()) text += 'n';
    if (context.rerun) text += 'r';
    if (context.result_unread) text += 'u';
  }

  at::Tensor weight_ = at::ones({2}).requires_grad_(true);
};

TEST(Recompute, RunsEachBlockButTheLastTwice) {
  const std::map<Recompute, std::string> expected{{Recompute::none, "0 1 2 3 4"},
                                                  {Recompute::selective, "0 1n 2 3 4 1ru"},
                                                  {Recompute::full, "0n 1n 2n 3n 4 2r 3ru 0r 1ru"}};
  for (const auto& [recompute, text] : expected) {
    Diary model;
    forward_backward(model, {}, {}, {.recompute = recompute});
    EXPECT_EQ(model.text, text);
    EXPECT_TRUE(at::equal(model.parameters()[0].tensor.grad(), at::full({2}, 32.0)));
  }
}

TEST(Recompute, IsRefusedWhereThereIsNothingToCut) {
  const auto refused = [](models::Trainable& model, models::BatchNormPolicy policy,
                          Recompute recompute) {
    try {
      check_recompute(model, policy, recompute);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return std::string(error.what());
    }
    return std::string();
  };
  using models::BatchNormPolicy;
  torch::nn::Linear layer(2, 2);
  const auto whole = models::from_module(
      layer.ptr(), [layer](const batch::MicroBatch& m) mutable { return layer(m.inputs); },
      models::class_cross_entropy, "linear");
  EXPECT_NE(refused(*whole, BatchNormPolicy::micro, Recompute::full).find("cannot be cut"),
            std::string::npos);
  EXPECT_EQ(refused(*whole, BatchNormPolicy::micro, Recompute::none), "");
  const auto normalised = resnet(models::Norm::batch)(), grouped = resnet(models::Norm::group)();
  EXPECT_NE(refused(*normalised, BatchNormPolicy::exact, Recompute::selective).find("exact"),
            std::string::npos);
  EXPECT_EQ(refused(*normalised, BatchNormPolicy::micro, Recompute::selective), "");
  EXPECT_EQ(refused(*grouped, BatchNormPolicy::exact, Recompute::full), "");
}

}  // namespace
}  // namespace accrue::train
