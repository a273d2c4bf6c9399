// A model of the next byte of a text, trained in plain libtorch on each batch at once.
// own_command.cpp is the same as a command: train, plan, verify, bench, doctor, report and the
// rest.
//   own_command_plain TEXT STEPS
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iterator>

namespace F = torch::nn::functional;

constexpr std::int64_t kWidth = 16, kContext = 16, kBatch = 12;

/// A recurrent network that predicts the next byte of text.
struct BytesImpl : torch::nn::Module {
  explicit BytesImpl(std::int64_t width)
      : embed(256, width),
        recurrent(torch::nn::GRUOptions(width, width).batch_first(true)),
        head(width, 256) {
    register_module("embed", embed);
    register_module("recurrent", recurrent);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& ids) { return head(std::get<0>(recurrent(embed(ids)))); }
  torch::nn::Embedding embed;
  torch::nn::GRU recurrent;
  torch::nn::Linear head;
};
TORCH_MODULE(Bytes);

/// A text's bytes as numbers.
at::Tensor read(const char* file) {
  std::ifstream text(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(text), {}};
  return torch::from_blob(bytes.data(), {std::ssize(bytes)}, torch::kByte).to(torch::kLong);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const at::Tensor ids = read(argv[1]);
  const std::int64_t rows = (ids.size(0) - 1) / kContext, steps = std::atol(argv[2]);
  torch::manual_seed(1337);
  Bytes model(kWidth);
  model->to(torch::kDouble);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  for (std::int64_t step = 0; step < steps && (step + 1) * kBatch <= rows; ++step) {
    const std::int64_t begin = step * kBatch * kContext, length = kBatch * kContext;
    const at::Tensor inputs = ids.narrow(0, begin, length).view({kBatch, kContext});
    const at::Tensor logits = model->forward(inputs).flatten(0, 1);
    const at::Tensor loss = F::cross_entropy(logits, ids.narrow(0, begin + 1, length));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("loss %.17g\n", loss.item<double>());
  }
}
