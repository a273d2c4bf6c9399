// A classifier of sequences as it is written on libtorch alone: embedding, layers of LSTM, the last
// position to classes. It uses nothing of accrue.
#pragma once

#include <torch/torch.h>

namespace plain {

struct LstmClassifierImpl : torch::nn::Module {
  LstmClassifierImpl(int64_t vocab, int64_t width, int64_t layers, int64_t classes)
      : embedding(register_module("embedding", torch::nn::Embedding(vocab, width))),
        lstm(register_module(
            "lstm",
            torch::nn::LSTM(
                torch::nn::LSTMOptions(width, width).num_layers(layers).batch_first(true)))),
        head(register_module("head", torch::nn::Linear(width, classes))) {}

  torch::Tensor forward(const torch::Tensor& ids) {
    const auto states = std::get<0>(lstm(embedding(ids)));
    return head(states.select(1, states.size(1) - 1));
  }

  torch::nn::Embedding embedding;
  torch::nn::LSTM lstm;
  torch::nn::Linear head;
};
TORCH_MODULE(LstmClassifier);

}  // namespace plain
