// segmentation_plain [SEED]: a class for each pixel by a small U-Net in plain libtorch.
#include <torch/torch.h>

#include <cstdio>

namespace {

namespace nn = torch::nn;
constexpr std::int64_t kBatch = 24, kSide = 24, kSteps = 40, kIgnored = -100;

/// Bright discs (class 1) and boxes (class 2) on noise; their outlines count for nothing.
std::vector<at::Tensor> images_and_masks() {
  const at::Tensor place = torch::randint(6, kSide - 6, {2, kBatch, 1, 1}, torch::kFloat);
  const at::Tensor y = (torch::arange(kSide).view({1, kSide, 1}) - place[0]).abs();
  const at::Tensor x = (torch::arange(kSide).view({1, 1, kSide}) - place[1]).abs();
  const at::Tensor is_box = torch::rand({kBatch, 1, 1}).gt(0.5);
  const at::Tensor away = torch::where(is_box, torch::maximum(y, x), torch::hypot(y, x));
  const at::Tensor inside = torch::randint(3, 8, {kBatch, 1, 1}) - away;
  const at::Tensor classes = inside.gt(0) * (1 + is_box.to(torch::kLong));
  const at::Tensor noise = torch::rand({kBatch, 3, kSide, kSide}, torch::kDouble);
  return {classes.gt(0).unsqueeze(1) + noise, classes.masked_fill(inside.abs() < 0.8, kIgnored)};
}

nn::Sequential layers(std::int64_t before, std::int64_t after) {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(before, after, 3).padding(1)),
                        nn::GroupNorm(4, after), nn::ReLU());
}

struct UNetImpl : nn::Module {
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor skip = down->forward(images);
    const at::Tensor x = bottom->forward(torch::max_pool2d(skip, 2));
    return head(up->forward(torch::cat({skip, torch::upsample_nearest2d(x, {kSide, kSide})}, 1)));
  }
  nn::Sequential down = register_module("down", layers(3, 8));
  nn::Sequential bottom = register_module("bottom", layers(8, 16));
  nn::Sequential up = register_module("up", layers(24, 8));
  nn::Conv2d head = register_module("head", nn::Conv2d(8, 3, 1));
};
TORCH_MODULE(UNet);

at::Tensor loss_of(UNet& net, const std::vector<at::Tensor>& batch) {
  return torch::cross_entropy_loss(net->forward(batch[0]), batch[1]);
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(argc > 1 ? std::stoi(argv[1]) : 1);
  UNet net;
  net->to(torch::kDouble);
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  for (std::int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(net, images_and_masks());
    loss.backward();
    optimizer.step();
    std::printf("step %2d  loss %.15f\n", static_cast<int>(step + 1), loss.item<double>());
  }
}
