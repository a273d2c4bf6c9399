#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accrue/data/own_source.h"
#include "accrue/train/trainer.h"
#include "train/own_network.h"

/// A program's own batch type that slices cannot cut, a model and losses for it, and the reference
/// results of libtorch alone.
namespace accrue::train::testing {

/// Bags of unequal sizes, one after the other: no dimension is that of samples.
struct Bags {
  at::Tensor words, begins;   ///< [words of all], [B]
  at::Tensor scales, labels;  ///< fp32 [B], [B]
};
inline Bags batch_in_double(const Bags& bags) {
  Bags converted = bags;
  converted.scales = bags.scales.to(at::kDouble);
  return converted;
}
inline std::int64_t batch_size(const Bags& bags) { return bags.begins.size(0); }

inline constexpr std::int64_t samples = 30, batch_samples = 12, vocabulary = 9, classes = 3;

inline Bags bags_of(std::span<const std::int64_t> indices) {
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

inline std::shared_ptr<const data::Source> all_bags(const std::string& identity = "bags 1") {
  return data::own_source<Bags>({.size = samples, .fetch = bags_of, .identity = identity});
}

struct NetImpl : torch::nn::Module {
  NetImpl()
      : embed(torch::nn::EmbeddingBagOptions(vocabulary, 6).mode(torch::kSum)), head(6, classes) {
    register_module("embed", embed);
    register_module("head", head);
    set_waves(*this);
  }
  at::Tensor forward(const Bags& bags) {
    return head(embed(bags.words, bags.begins).tanh() * bags.scales.unsqueeze(1));
  }
  torch::nn::EmbeddingBag embed;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

inline Loss summed_loss(Net& net, const Bags& bags) {
  using Options = torch::nn::functional::CrossEntropyFuncOptions;
  return {.sum = torch::nn::functional::cross_entropy(net->forward(bags), bags.labels,
                                                      Options().reduction(torch::kSum)),
          .weight = static_cast<double>(bags.labels.size(0))};
}

inline Loss mean_of_micro_batch(Net& net, const Bags& bags) {
  const Loss loss = summed_loss(net, bags);
  return {.sum = loss.sum / loss.weight, .weight = 1};
}

/// The same steps by libtorch alone, each over its whole batch without the samples `left_out`.
inline std::vector<at::Tensor> trained_by_libtorch(std::int64_t steps,
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

/// `c` as a run of `steps` batches of the bags, in order, by plain gradient descent in fp64.
inline Config with_bags(Config c, std::int64_t steps, std::optional<std::int64_t> micro) {
  return by_descent(std::move(c), steps, batch_samples, micro);
}

}  // namespace accrue::train::testing
