// No false alarm on models that are right, and no planted fault missed, over many random networks.
#include <gtest/gtest.h>

#include <random>

#include "accrue/verify/verify.h"
#include "networks.h"

namespace accrue {
namespace {

using proof::Cause;
using testing::Batch;

constexpr std::int64_t context = 6, vocab = 11;

/// Tokens [B, T] to one number a sample, through a random stack of layers.
struct RandomNetworkImpl : torch::nn::Module {
  explicit RandomNetworkImpl(std::mt19937& random, bool with_dropout = false) {
    width = 4 * std::uniform_int_distribution<std::int64_t>(1, 4)(random);
    embedding = register_module("embedding", torch::nn::Embedding(vocab, width));
    const int depth = std::uniform_int_distribution<int>(1, 4)(random);
    for (int i = 0; i < depth; ++i) add_layer(i, std::uniform_int_distribution<int>(0, 4)(random));
    dropout = register_module("dropout", torch::nn::Dropout(with_dropout ? 0.2 : 0.0));
    head = register_module("head", torch::nn::Linear(width, 1));
  }

  void add_layer(int index, int kind) {
    const std::string name = "layer" + std::to_string(index);
    if (kind == 0) {
      auto layer = register_module(name, torch::nn::Linear(width, width));
      layers.push_back([=](torch::Tensor x) mutable { return torch::gelu(layer->forward(x)); });
    } else if (kind == 1) {
      auto layer = register_module(
          name, torch::nn::Conv1d(torch::nn::Conv1dOptions(width, width, 3).padding(1)));
      layers.push_back([=](torch::Tensor x) mutable {
        return torch::tanh(layer->forward(x.transpose(1, 2))).transpose(1, 2);
      });
    } else if (kind == 2) {
      auto layer =
          register_module(name, torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
      layers.push_back([=](torch::Tensor x) mutable { return layer->forward(x); });
    } else if (kind == 3) {
      auto layer =
          register_module(name, torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, width)));
      layers.push_back([=](torch::Tensor x) mutable {
        return layer->forward(x.transpose(1, 2)).transpose(1, 2);
      });
    } else {
      auto layer = register_module(name, torch::nn::Linear(width, 3 * width));
      layers.push_back([=, this](torch::Tensor x) mutable {
        const auto qkv = layer->forward(x).chunk(3, -1);
        const auto scores = qkv[0].matmul(qkv[1].transpose(1, 2)) / std::sqrt(double(width));
        return x + torch::softmax(scores, -1).matmul(qkv[2]);
      });
    }
  }

  torch::Tensor forward(const torch::Tensor& ids) {
    torch::Tensor x = embedding->forward(ids);
    for (auto& layer : layers) x = layer(x);
    return head->forward(dropout->forward(x.mean(1)));
  }

  std::int64_t width = 0;
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear head{nullptr};
  std::vector<std::function<torch::Tensor(torch::Tensor)>> layers;
};
TORCH_MODULE(RandomNetwork);

Batch random_batch(std::int64_t samples) {
  // Weights grow, so that no two parts of a batch weigh the same per sample.
  return {torch::randint(vocab, {samples, context}, torch::kLong), torch::randn({samples, 1}),
          torch::arange(1, samples + 1).reshape({samples, 1}).to(torch::kFloat)};
}

Loss sound_loss(RandomNetwork& model, const Batch& micro) {
  const torch::Tensor error = (model->forward(micro[0]) - micro[1]).square() * micro[2];
  return {error.sum(), micro[2].sum().item<double>()};
}

TEST(RandomModels, NoFalseAlarmOverTwoHundredModelsAndSplits) {
  std::mt19937 random(2024);
  torch::manual_seed(2024);
  double nearest = 0;
  for (int i = 0; i < 200; ++i) {
    RandomNetwork model(random);
    const std::int64_t samples = std::uniform_int_distribution<std::int64_t>(2, 16)(random);
    std::uniform_int_distribution<std::int64_t> size(1, samples);
    const proof::Report report = verify(
        model, random_batch(samples), sound_loss,
        {.micro_batches = {size(random), size(random)}, .seed = static_cast<std::uint64_t>(i)});
    ASSERT_TRUE(report.equal) << "model " << i << ": " << conclusion(report)
                              << ::testing::PrintToString(report.evidence);
    for (const auto& split : report.splits)
      nearest = std::max(nearest, split.relative_error / split.bound);
  }
  RecordProperty("nearest_to_the_bound", std::to_string(nearest));
  EXPECT_GT(nearest, 0.005) << "a bound that nothing comes near says nothing";
}

struct Fault {
  const char* name;
  Cause cause;
  std::function<Loss(RandomNetwork&, const Batch&)> loss;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"mean and one", Cause::weighting,
       [](RandomNetwork& m, const Batch& micro) {
         const Loss loss = sound_loss(m, micro);
         return Loss{loss.sum / loss.weight, 1};
       }},
      {"mean and count", Cause::weighting,
       [](RandomNetwork& m, const Batch& micro) {
         const Loss loss = sound_loss(m, micro);
         return Loss{loss.sum / loss.weight, loss.weight};
       }},
      {"coupled", Cause::batch_coupled_loss,
       [](RandomNetwork& m, const Batch& micro) {
         const torch::Tensor output = m->forward(micro[0]);
         const torch::Tensor centred = output - 0.3 * output.mean() - micro[1];
         return Loss{(centred.square() * micro[2]).sum(), micro[2].sum().item<double>()};
       }},
  };
  return all;
}

TEST(RandomModels, EveryPlantedFaultIsNamed) {
  const VerifyOptions few{.micro_batches = {3, 5}, .noise_draws = 1};
  std::mt19937 random(77);
  torch::manual_seed(77);
  for (int i = 0; i < 6; ++i) {
    RandomNetwork model(random);
    const Batch batch = random_batch(std::uniform_int_distribution<std::int64_t>(8, 16)(random));
    for (const Fault& fault : faults()) {
      const proof::Report report = verify(model, batch, fault.loss, few);
      EXPECT_EQ(to_string(report.cause), to_string(fault.cause))
          << fault.name << " in model " << i << ::testing::PrintToString(report.evidence);
    }
    RandomNetwork with_dropout(random, true);
    EXPECT_EQ(verify(with_dropout, batch, sound_loss, few).cause, Cause::dropout) << "model " << i;
  }
}

}  // namespace
}  // namespace accrue
