// A DCGAN (Radford, Metz, Chintala, arXiv:1511.06434) of small images of discs, in plain libtorch.
// gan.cpp is the same in micro-batches.
#include <torch/torch.h>

#include <cstdio>

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr std::int64_t kNoise = 8, kSide = 8, kBatch = 60, kSteps = 200;

// Light discs on dark ground, each with a middle and a radius of its own.
at::Tensor discs() {
  const at::Tensor middle = torch::rand({kBatch, 2, 1, 1}) + 3, at = torch::arange(kSide);
  const at::Tensor rows = at.view({1, kSide, 1}) - middle.select(1, 0);
  const at::Tensor columns = at.view({1, 1, kSide}) - middle.select(1, 1);
  const at::Tensor radius = 1.5 + torch::rand({kBatch, 1, 1});
  return torch::tanh(radius.square() - rows.square() - columns.square()).unsqueeze(1);
}

// Normalised by group, never by batch: BatchNorm would make a sample's gradient depend on others.
nn::Sequential generator() {
  return nn::Sequential(
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(kNoise, 16, 4)), nn::GroupNorm(4, 16),
      nn::ReLU(), nn::ConvTranspose2d(nn::ConvTranspose2dOptions(16, 1, 4).stride(2).padding(1)),
      nn::Tanh());
}

nn::Sequential discriminator() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 4).stride(2).padding(1)),
                        nn::LeakyReLU(), nn::Conv2d(nn::Conv2dOptions(16, 1, 4)), nn::Flatten());
}

int main() {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  torch::manual_seed(1);
  nn::Sequential g = generator(), d = discriminator();
  const auto options = torch::optim::AdamOptions(1e-3).betas({0.5, 0.999});
  torch::optim::Adam g_adam(g->parameters(), options), d_adam(d->parameters(), options);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const at::Tensor real = discs(), noise = torch::randn({kBatch, kNoise, 1, 1});
    const at::Tensor fake = g->forward(noise);
    const at::Tensor g_loss = F::softplus(-d->forward(fake)).mean();
    const at::Tensor d_loss =
        F::softplus(-d->forward(real)).mean() + F::softplus(d->forward(fake.detach())).mean();
    g_adam.zero_grad();
    g_loss.backward();
    d_adam.zero_grad();  // also of what the generator's loss left there
    d_loss.backward();
    g_adam.step();
    d_adam.step();
    if (step % 20 == 19)
      std::printf("generator %.17g  discriminator %.17g\n", g_loss.item<double>(),
                  d_loss.item<double>());
  }
  const at::Tensor generated = g->forward(torch::randn({kBatch, kNoise, 1, 1}));
  const auto away = (generated.mean(0) - discs().mean(0)).abs().mean().item<double>();
  return away < 0.2 ? 0 : 1;  // the mean image is near that of discs
}
