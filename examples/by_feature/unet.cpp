// unet train unet.toml: a U-Net of images with masks as a chain of segments, which backward runs
// again block by block. Skip connections pass the cuts before what flows on.
#include <accrue/cli/main.h>
#include <accrue/models/class_loss.h>
#include <accrue/train/config.h>
#include <torch/torch.h>

namespace nn = torch::nn;
using accrue::models::Activations, accrue::models::LossHead, accrue::models::Segment;
constexpr auto kLast = torch::MemoryFormat::ChannelsLast;  // what convolutions need not copy
enum class Step { level, down, up };

struct UNet : accrue::models::Trainable {
  explicit UNet(const accrue::train::Config& config) {
    torch::manual_seed(config.run.seed);
    const auto& model = config.model;
    const std::int64_t width = model.width, levels = model.layers;
    for (std::int64_t i = 0; i <= levels; ++i) {
      const std::int64_t before = i == 0 ? model.image.at(0) : width << (i - 1);
      add(i == 0 ? Step::level : Step::down, layer(before, width << i), true);
      add(Step::level, layer(width << i, width << i), false);
    }
    for (std::int64_t i = levels - 1; i >= 0; --i) {
      add(Step::level, layer(width << (i + 1), width << i), true);
      add(Step::up, layer(width << i, width << i), true);
    }
    add(Step::level, nn::Sequential(nn::Conv2d(width, model.vocab.value(), 1)), true);
  }
  static nn::Sequential layer(std::int64_t before, std::int64_t after) {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(before, after, 3).padding(1).bias(false)),
                          nn::GroupNorm(4, after), nn::ReLU(true));
  }
  void add(Step step, nn::Sequential layer, bool begins_block) {
    const std::string name = "layer" + std::to_string(chain.size());
    for (const auto& entry : layer->named_parameters())
      named.push_back({name + "." + entry.key(), entry.value()});
    const auto run = [=](Activations x, const auto& micro, const auto& /*context*/) mutable {
      if (x.empty()) x = {micro.inputs.to(layer->parameters()[0].options().memory_format(kLast))};
      if (step == Step::down) x.push_back(torch::max_pool2d(x.back(), 2));
      if (step == Step::up) {
        at::Tensor& skip = x.at(x.size() - 2);
        skip = skip + torch::upsample_nearest2d(x.back(), skip.sizes().slice(2));
        x.pop_back();
      }
      x.back() = layer->forward(x.back());
      return x;
    };
    chain.push_back({.name = name, .forward = run, .begins_block = begins_block});
  }
  accrue::NamedParameters parameters() const override { return named; }
  std::vector<Segment> segments() override { return chain; }
  std::vector<LossHead> losses() override { return {accrue::models::class_cross_entropy_head()}; }
  accrue::NamedParameters named;
  std::vector<Segment> chain;
};

int main(int count, char** words) {
  const auto model = [](const auto& config) { return std::make_unique<UNet>(config); };
  accrue::exit(accrue::main(count, words, {.model = model}));
}
