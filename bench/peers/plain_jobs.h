// What bench/e2e/foreign_layers.py trains: models on libtorch alone, each with its optimizer and
// random micro-batches. It uses nothing of accrue.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <functional>
#include <memory>

#include "plain_gpt2.h"
#include "plain_lstm.h"
#include "plain_resnet50.h"

namespace plain {

using Values = std::map<std::string, int64_t>;

struct Job {
  std::shared_ptr<torch::nn::Module> module;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::function<torch::Tensor()> loss_sum;  ///< of a micro-batch that is drawn anew
  int64_t terms = 0;                        ///< of its loss
  int64_t units = 0;                        ///< tokens or images in it
};

inline torch::Tensor cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& targets) {
  return F::cross_entropy(logits, targets, F::CrossEntropyFuncOptions().reduction(torch::kSum));
}

inline std::unique_ptr<torch::optim::Optimizer> adamw(const torch::nn::Module& module) {
  return std::make_unique<torch::optim::AdamW>(
      module.parameters(), torch::optim::AdamWOptions(3e-4).betas({0.9, 0.95}).weight_decay(0.1));
}

/// Draws of a job's own, the same in every loop.
inline at::Generator own_draws() { return at::make_generator<at::CPUGeneratorImpl>(7); }

inline Job gpt2_job(Values v) {
  const Shape shape = shape_of(v);
  Gpt2 model(shape);
  const int64_t micro = v["micro"];
  return {.module = model.ptr(),
          .optimizer = adamw(*model),
          .loss_sum =
              [=, draws = own_draws()]() mutable {
                const auto ids =
                    torch::randint(shape.vocab, {micro, shape.context + 1}, draws, torch::kInt64);
                return cross_entropy_sum(
                    model(ids.narrow(1, 0, shape.context)).view({-1, shape.vocab}),
                    ids.narrow(1, 1, shape.context).reshape({-1}));
              },
          .terms = micro * shape.context,
          .units = micro * shape.context};
}

inline Job resnet50_job(Values v) {
  const std::vector<int64_t> blocks =
      v["layers"] == 50 ? std::vector<int64_t>{3, 4, 6, 3} : std::vector<int64_t>{1, 1, 1, 1};
  ResNet50 model(blocks, v["width"], v["classes"]);
  const int64_t micro = v["micro"], side = v["image"], classes = v["classes"];
  return {.module = model.ptr(),
          .optimizer = std::make_unique<torch::optim::SGD>(
              model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9).weight_decay(1e-4)),
          .loss_sum =
              [=, draws = own_draws()]() mutable {
                const auto images = torch::randn({micro, 3, side, side}, draws);
                return cross_entropy_sum(model(images),
                                         torch::randint(classes, {micro}, draws, torch::kInt64));
              },
          .terms = micro,
          .units = micro};
}

inline Job lstm_job(Values v) {
  LstmClassifier model(v["vocab"], v["width"], v["layers"], v["classes"]);
  const int64_t micro = v["micro"], context = v["context"], vocab = v["vocab"],
                classes = v["classes"];
  return {.module = model.ptr(),
          .optimizer = adamw(*model),
          .loss_sum =
              [=, draws = own_draws()]() mutable {
                const auto ids = torch::randint(vocab, {micro, context}, draws, torch::kInt64);
                return cross_entropy_sum(model(ids),
                                         torch::randint(classes, {micro}, draws, torch::kInt64));
              },
          .terms = micro,
          .units = micro * context};
}

/// A job by its name, always with the same first values.
inline Job make_job(const std::string& name, const Values& values) {
  torch::manual_seed(1337);
  if (name == "gpt2") return gpt2_job(values);
  if (name == "resnet50") return resnet50_job(values);
  if (name == "lstm") return lstm_job(values);
  std::fprintf(stderr, "error: expected gpt2, resnet50 or lstm, received %s\n", name.c_str());
  std::exit(2);
}

}  // namespace plain
