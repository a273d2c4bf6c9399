// A model of one's own as a whole command: train, plan, verify, bench, doctor, report and the rest.
//   own_command train CONFIG.toml --run.out=runs/first
#include <accrue/cli/main.h>
#include <accrue/train/config.h>
#include <torch/torch.h>

namespace {

namespace F = torch::nn::functional;

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

accrue::Loss next_byte_loss(Bytes& model, const accrue::batch::MicroBatch& micro) {
  const at::Tensor logits = model->forward(micro.inputs).flatten(0, 1);
  return {.sum = F::cross_entropy(logits, micro.targets.flatten(),
                                  F::CrossEntropyFuncOptions().reduction(torch::kSum)),
          .weight = static_cast<double>(micro.targets.numel())};
}

std::unique_ptr<accrue::models::Trainable> make_model(const accrue::train::Config& config) {
  torch::manual_seed(config.run.seed);
  return accrue::train::trainable(Bytes(config.model.width), next_byte_loss);
}

}  // namespace

int main(int count, char** words) {
  accrue::exit(accrue::main(count, words, {.model = make_model}));
}
