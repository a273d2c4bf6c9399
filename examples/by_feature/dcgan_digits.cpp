// Two models, two optimizers, a window each: a small DCGAN (Radford, Metz, Chintala,
// arXiv:1511.06434) on the 8x8 digits of scikit-learn. Both windows are open at the same time, and
// differentiating the generator's loss through the discriminator leaves the discriminator's window
// alone.
//
//   python make_digits.py digits.bin && dcgan_digits digits.bin [STEPS]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"

namespace {

namespace nn = torch::nn;

constexpr std::int64_t kNoise = 16, kBatch = 128, kMicroBatch = 32, kPixels = 64;

// Normalised by group, never by batch: BatchNorm would make a sample's gradient depend on its
// micro-batch.
nn::Sequential make_generator() {
  return nn::Sequential(
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(kNoise, 32, 4)), nn::GroupNorm(4, 32),
      nn::ReLU(), nn::ConvTranspose2d(nn::ConvTranspose2dOptions(32, 1, 4).stride(2).padding(1)),
      nn::Tanh());
}

nn::Sequential make_discriminator() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 32, 4).stride(2).padding(1)),
                        nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                        nn::Conv2d(nn::Conv2dOptions(32, 1, 4)), nn::Flatten());
}

at::Tensor read_digits(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto count = static_cast<std::int64_t>(bytes.size()) / kPixels;
  if (count == 0 || bytes.size() % kPixels != 0)
    throw accrue::usage_error("read digits", "a file of 64 bytes per image",
                              "'" + path + "' with " + std::to_string(bytes.size()) + " bytes",
                              "python examples/by_feature/make_digits.py FILE");
  const at::Tensor pixels = at::tensor(
      at::ArrayRef<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
      at::kByte);
  return pixels.view({count, 1, 8, 8}).to(at::kFloat) / 8 - 1;
}

// log(1 + exp(-logit)), summed: the loss of "this is real".
at::Tensor real_loss(const at::Tensor& logits) { return torch::softplus(-logits).sum(); }
at::Tensor fake_loss(const at::Tensor& logits) { return torch::softplus(logits).sum(); }

torch::optim::AdamOptions adam() {
  return torch::optim::AdamOptions(1e-3).betas(std::make_tuple(0.5, 0.999));
}

void print_image(const at::Tensor& image) {
  const auto pixels = image.contiguous();
  for (std::int64_t row = 0; row < 8; ++row) {
    for (std::int64_t column = 0; column < 8; ++column) {
      const float value = pixels.const_data_ptr<float>()[row * 8 + column];
      std::fputs(value > 0.33F ? "##" : value > -0.33F ? "++" : "  ", stdout);
    }
    std::fputc('\n', stdout);
  }
}

int train(const at::Tensor& digits, std::int64_t steps) {
  torch::manual_seed(1);
  nn::Sequential generator = make_generator(), discriminator = make_discriminator();
  torch::optim::Adam generator_adam(generator->parameters(), adam());
  torch::optim::Adam discriminator_adam(discriminator->parameters(), adam());
  accrue::Accumulator acc_g(generator, {.batch = accrue::Samples{kBatch}});
  accrue::Accumulator acc_d(discriminator, {.batch = accrue::Samples{kBatch}});

  // How far the mean digit of the generator is from that of the data: it has to come down.
  const at::Tensor fixed_noise = torch::randn({256, kNoise, 1, 1}), mean_digit = digits.mean(0);
  const auto distance = [&] {
    const torch::NoGradGuard no_grad;
    return (generator->forward(fixed_noise).mean(0) - mean_digit).abs().mean().item<double>();
  };
  const double distance_before = distance();

  for (std::int64_t step = 0; step < steps;) {
    const at::Tensor ids = torch::randint(digits.size(0), {kMicroBatch}, at::kLong);
    const at::Tensor real = digits.index_select(0, ids);
    const at::Tensor fake = generator->forward(torch::randn({kMicroBatch, kNoise, 1, 1}));
    const at::Tensor d_loss =
        real_loss(discriminator->forward(real)) + fake_loss(discriminator->forward(fake.detach()));
    acc_d.backward({d_loss, static_cast<double>(kMicroBatch)});
    acc_g.backward({real_loss(discriminator->forward(fake)), static_cast<double>(kMicroBatch)});
    if (!acc_d.full()) continue;
    const accrue::StepReport d = acc_d.step(discriminator_adam), g = acc_g.step(generator_adam);
    if (++step % 50 == 0)
      std::printf("step %4ld  discriminator %.3f  generator %.3f  distance of means %.3f\n",
                  static_cast<long>(step), d.loss.value(), g.loss.value(), distance());
  }
  print_image(generator->forward(fixed_noise).detach()[0]);
  if (distance() < 0.6 * distance_before) return 0;
  std::printf("the generated digits did not come nearer to the data\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: dcgan_digits FILE [STEPS]\n", stderr);
    return 2;
  }
  return train(read_digits(argv[1]), argc == 3 ? std::atol(argv[2]) : 1000);
} catch (const accrue::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return error.exit_code();
}
