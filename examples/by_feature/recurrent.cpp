// A recurrent classifier of sequences of unequal lengths, in micro-batches: whether the first of a
// sequence's symbols is among the lower half. recurrent_plain.cpp is the same in plain libtorch.
#include <accrue/train/step.h>
#include <torch/torch.h>

#include <cstdio>

namespace F = torch::nn::functional;

constexpr std::int64_t kSymbols = 8, kLongest = 12, kWidth = 16, kBatch = 60, kSteps = 100;

struct Batch {
  at::Tensor ids, lengths, labels;  // [B, T], [B], [B]
};

std::int64_t batch_size(const Batch& batch) { return batch.ids.size(0); }
Batch batch_slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
  return {batch.ids.slice(0, begin, end), batch.lengths.slice(0, begin, end),
          batch.labels.slice(0, begin, end)};
}

Batch read(std::int64_t step) {
  torch::manual_seed(static_cast<std::uint64_t>(step));
  const at::Tensor ids = torch::randint(kSymbols, {kBatch, kLongest}, torch::kLong);
  const at::Tensor lengths = torch::randint(1, kLongest + 1, {kBatch}, torch::kLong);
  return {ids, lengths, (ids.select(1, 0) < kSymbols / 2).to(torch::kLong)};
}

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const Batch& batch) {
    const auto packed =
        torch::nn::utils::rnn::pack_padded_sequence(embed(batch.ids), batch.lengths,
                                                    /*batch_first=*/true, /*enforce_sorted=*/false);
    const auto [hidden, cell] = std::get<1>(lstm->forward_with_packed_input(packed));
    return head(hidden.select(0, -1));
  }
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(kSymbols, kWidth));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(kWidth, kWidth));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, 2));
};
TORCH_MODULE(Net);

accrue::Loss loss_of(Net& model, const Batch& batch) {
  const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum);
  return {F::cross_entropy(model->forward(batch), batch.labels, sum), 1.0 * batch_size(batch)};
}

int main() {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  torch::manual_seed(1);
  Net model;
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  accrue::Stepper stepper(model, optimizer, {.micro_batch = 9});
  double loss = 1;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    loss = stepper.step(read(step), loss_of).loss.value();
    if (step % 10 == 9) std::printf("loss %.17g\n", loss);
  }
  return loss < 0.2 ? 0 : 1;
}
