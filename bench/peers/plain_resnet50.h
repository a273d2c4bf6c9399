// ResNet-50 (He et al., arXiv:1512.03385) as it is written on libtorch alone: torch::nn, bottleneck
// blocks with the stride in the 3 x 3 convolution. It uses nothing of accrue.
#pragma once

#include <torch/torch.h>

namespace plain {

inline torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                               .stride(stride)
                               .padding((kernel - 1) / 2)
                               .bias(false));
}

struct BottleneckImpl : torch::nn::Module {
  BottleneckImpl(int64_t in, int64_t width, int64_t stride)
      : conv1(register_module("conv1", convolution(in, width, 1))),
        conv2(register_module("conv2", convolution(width, width, 3, stride))),
        conv3(register_module("conv3", convolution(width, 4 * width, 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(width))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(width))),
        bn3(register_module("bn3", torch::nn::BatchNorm2d(4 * width))) {
    if (stride == 1 && in == 4 * width) return;
    downsample =
        register_module("downsample", torch::nn::Sequential(convolution(in, 4 * width, 1, stride),
                                                            torch::nn::BatchNorm2d(4 * width)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::relu(bn1(conv1(x)));
    y = torch::relu(bn2(conv2(y)));
    y = bn3(conv3(y));
    return torch::relu(y + (downsample.is_empty() ? x : downsample->forward(x)));
  }

  torch::nn::Conv2d conv1, conv2, conv3;
  torch::nn::BatchNorm2d bn1, bn2, bn3;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Bottleneck);

struct ResNet50Impl : torch::nn::Module {
  /// `blocks` of each of the four stages: {3, 4, 6, 3} is ResNet-50; `width` of the first: 64.
  ResNet50Impl(const std::vector<int64_t>& blocks, int64_t width, int64_t classes)
      : conv1(register_module(
            "conv1", torch::nn::Conv2d(
                         torch::nn::Conv2dOptions(3, width, 7).stride(2).padding(3).bias(false)))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(width))),
        layers(register_module("layers", torch::nn::Sequential())) {
    int64_t in = width;
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
      const int64_t inner = width << stage;
      for (int64_t block = 0; block < blocks[stage]; ++block) {
        layers->push_back(Bottleneck(in, inner, stage > 0 && block == 0 ? 2 : 1));
        in = 4 * inner;
      }
    }
    fc = register_module("fc", torch::nn::Linear(in, classes));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    auto x = torch::relu(bn1(conv1(images)));
    x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    return fc(torch::adaptive_avg_pool2d(layers->forward(x), {1, 1}).flatten(1));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Sequential layers;
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(ResNet50);

}  // namespace plain
