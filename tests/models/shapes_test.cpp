#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "accrue/models/freeze.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/llama.h"
#include "accrue/models/resnet.h"
#include "accrue/models/vit.h"

namespace accrue::models {
namespace {

/// Expects parameters with the same names, shapes and dtypes, the same of which are
/// trained.
void expect_same_shapes(const Model& shapes, const Model& values) {
  const NamedParameters without = shapes.parameters(), with = values.parameters();
  ASSERT_EQ(without.size(), with.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    EXPECT_EQ(without[i].name, with[i].name);
    EXPECT_EQ(without[i].tensor.sizes(), with[i].tensor.sizes()) << with[i].name;
    EXPECT_EQ(without[i].tensor.dtype(), with[i].tensor.dtype()) << with[i].name;
    EXPECT_EQ(without[i].tensor.requires_grad(), with[i].tensor.requires_grad()) << with[i].name;
    EXPECT_TRUE(without[i].tensor.is_meta()) << with[i].name;
  }
}

TEST(Shapes, HaveThePublishedCountsOfParameters) {
  const auto count = [](const Model& model) { return parameter_count(model); };
  // Radford et al., 2019, with the head tied: the model that was named 1.5B there.
  EXPECT_EQ(count(Gpt2({.layers = 48, .heads = 25, .width = 1600, .context = 1024, .vocab = 50'257},
                       Initialisation::shapes)),
            1'557'611'200);
  // ViT-B/16 at 224 x 224 and 1000 classes: 86,567,656 (Dosovitskiy et al., 2021).
  EXPECT_EQ(count(Vit({.layers = 12,
                       .heads = 12,
                       .width = 768,
                       .patches = 196,
                       .classes = 1000,
                       .image = {3, 224, 224}},
                      Initialisation::shapes)),
            86'567'656);
  // ResNet-20 for CIFAR: "0.27 M" (He et al., 2015, table 6); 1x1 shortcuts add 2,560 weights and
  // their norms 192.
  EXPECT_EQ(count(ResNet({.layers = 20, .width = 16, .classes = 10, .image = {3, 32, 32}},
                         Initialisation::shapes)),
            269'722 + 2'560 + 192);
  // Llama 3.1 405B: 405.85 G (arXiv:2407.21783, table 3).
  const LlamaOptions largest{.layers = 126,
                             .heads = 128,
                             .kv_heads = 8,
                             .width = 16'384,
                             .ffn_width = 53'248,
                             .vocab = 128'256,
                             .variant = {.tied_head = false}};
  EXPECT_EQ(count(Llama(largest, Initialisation::shapes)), 405'853'388'800);
  EXPECT_EQ(parameter_count(largest), 405'853'388'800);
}

TEST(Shapes, AreThoseOfTheModelWithValues) {
  Gpt2Options gpt2{.layers = 2, .heads = 2, .width = 8, .context = 4, .vocab = 11};
  expect_same_shapes(Gpt2(gpt2, Initialisation::shapes), Gpt2(gpt2));
  gpt2.adapters = {.rank = 2, .kind = AdapterKind::dora};
  gpt2.compute = Compute::bf16;
  expect_same_shapes(Gpt2(gpt2, Initialisation::shapes), Gpt2(gpt2));
  LlamaOptions llama{.layers = 2, .heads = 2, .width = 256, .ffn_width = 256, .vocab = 11};
  llama.adapters = {.rank = 2};
  for (const BaseFormat base : {BaseFormat::as_stored, BaseFormat::q8_0, BaseFormat::q4_k}) {
    llama.base = base;
    expect_same_shapes(Llama(llama, Initialisation::shapes), Llama(llama));
  }
  const ResNetOptions resnet{.layers = 8, .width = 4, .classes = 3, .image = {3, 8, 8}};
  expect_same_shapes(ResNet(resnet, Initialisation::shapes), ResNet(resnet));
  const VitOptions vit{
      .layers = 1, .heads = 2, .width = 8, .patches = 4, .classes = 3, .image = {3, 8, 8}};
  expect_same_shapes(Vit(vit, Initialisation::shapes), Vit(vit));
}

}  // namespace
}  // namespace accrue::models
