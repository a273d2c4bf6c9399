#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "networks.h"

namespace accrue::testing {

constexpr std::int64_t context = 6, vocab = 11;

/// Networks this small are slower with more threads.
class RandomNetworks : public ::testing::Test {
 protected:
  RandomNetworks() { torch::set_num_threads(1); }
  ~RandomNetworks() override { torch::set_num_threads(threads_); }

 private:
  int threads_ = torch::get_num_threads();
};

struct NetworkTraits {
  bool dropout = false, batch_norm = false;
  bool tied = false, frozen = false, unused = false;
};

inline NetworkTraits random_traits(std::mt19937& random) {
  std::bernoulli_distribution third(1.0 / 3);
  return {.tied = third(random), .frozen = third(random), .unused = third(random)};
}

/// Tokens [B, T] to one number per sample, through a random stack of layers, smooth and with kinks.
struct RandomNetworkImpl : torch::nn::Module {
  explicit RandomNetworkImpl(std::mt19937& random, const NetworkTraits& traits = {})
      : is_tied(traits.tied) {
    width = 4 * std::uniform_int_distribution<std::int64_t>(1, 4)(random);
    embedding = register_module("embedding", torch::nn::Embedding(vocab, width));
    const int depth = std::uniform_int_distribution<int>(1, 4)(random);
    for (int i = 0; i < depth; ++i) add_layer(i, std::uniform_int_distribution<int>(0, 7)(random));
    if (traits.batch_norm) {
      auto layer = register_module("norm", torch::nn::BatchNorm1d(width));
      add([=](torch::Tensor x) mutable {
        return layer->forward(x.transpose(1, 2)).transpose(1, 2);
      });
    }
    dropout = register_module("dropout", torch::nn::Dropout(traits.dropout ? 0.2 : 0.0));
    head = register_module("head", torch::nn::Linear(is_tied ? vocab : width, 1));
    if (traits.unused) register_module("unused", torch::nn::Linear(3, 3));
    if (traits.frozen) parameters().front().requires_grad_(false);
  }

  void add(std::function<torch::Tensor(torch::Tensor)> layer) {
    layers.push_back(std::move(layer));
  }

  torch::nn::Linear linear(const std::string& name, std::int64_t out) {
    return register_module(name, torch::nn::Linear(width, out));
  }

  void add_layer(int index, int kind) {
    const std::string name = "layer" + std::to_string(index);
    if (kind == 0) {
      add([l = linear(name, width)](torch::Tensor x) mutable { return torch::gelu(l(x)); });
    } else if (kind == 1) {
      auto layer = register_module(
          name, torch::nn::Conv1d(torch::nn::Conv1dOptions(width, width, 3).padding(1)));
      add([=](torch::Tensor x) mutable {
        return torch::tanh(layer->forward(x.transpose(1, 2))).transpose(1, 2);
      });
    } else if (kind == 2) {
      auto layer =
          register_module(name, torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
      add([=](torch::Tensor x) mutable { return layer->forward(x); });
    } else if (kind == 3) {
      auto layer =
          register_module(name, torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, width)));
      add([=](torch::Tensor x) mutable {
        return layer->forward(x.transpose(1, 2)).transpose(1, 2);
      });
    } else if (kind == 4) {
      add([l = linear(name, 3 * width), this](torch::Tensor x) mutable {
        const auto qkv = l(x).chunk(3, -1);
        const auto scores = qkv[0].matmul(qkv[1].transpose(1, 2)) / std::sqrt(double(width));
        return x + torch::softmax(scores, -1).matmul(qkv[2]);
      });
    } else if (kind == 5) {
      add([l = linear(name, width)](torch::Tensor x) mutable { return x + torch::relu(l(x)); });
    } else if (kind == 6) {
      add([l = linear(name, width)](torch::Tensor x) mutable {
        return torch::leaky_relu(l(x), 0.1);
      });
    } else {
      add([](torch::Tensor x) {
        return torch::max_pool1d(x.transpose(1, 2), 3, 1, 1).transpose(1, 2);
      });
    }
  }

  torch::Tensor forward(const torch::Tensor& ids) {
    torch::Tensor x = embedding->forward(ids);
    for (auto& layer : layers) x = layer(x);
    if (is_tied) x = x.matmul(embedding->weight.t());
    return head->forward(dropout->forward(x.mean(1)));
  }

  bool is_tied;
  std::int64_t width = 0;
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear head{nullptr};
  std::vector<std::function<torch::Tensor(torch::Tensor)>> layers;
};
TORCH_MODULE(RandomNetwork);

/// Weights are increasing real numbers, so no two parts of a batch have the same weight per sample.
inline Batch random_batch(std::int64_t samples) {
  return {torch::randint(vocab, {samples, context}, torch::kLong), torch::randn({samples, 1}),
          torch::arange(1, samples + 1).reshape({samples, 1}) + torch::rand({samples, 1})};
}

inline Loss sound_loss(RandomNetwork& model, const Batch& micro) {
  const torch::Tensor error = (model->forward(micro[0]) - micro[1]).square() * micro[2];
  return {error.sum(), micro[2].sum().item<double>()};
}

}  // namespace accrue::testing
