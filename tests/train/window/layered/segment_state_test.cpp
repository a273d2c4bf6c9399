// What is known of the weights that a segment reads.
#include "train/window/layered/segment_state.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "accrue/models/freeze.h"
#include "accrue/models/llama.h"
#include "train/window/layered/layered_fixture.h"

namespace accrue::train {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// The names of the model's parameters among `tensors`.
std::vector<std::string> weights_among(const models::Trainable& model,
                                       const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedParameter& parameter : model.parameters())
    for (const at::Tensor& tensor : tensors)
      if (tensor.is_same(parameter.tensor)) names.push_back(parameter.name);
  return names;
}

TEST(SegmentState, HasTheFrozenBaseOfAdapters) {
  models::LlamaOptions options{.layers = 2,
                               .heads = 2,
                               .width = 32,
                               .ffn_width = 64,
                               .context = 8,
                               .vocab = 31,
                               .compute = models::Compute::bf16};
  options.variant.tied_head = false;
  options.base = models::BaseFormat::q8_0;
  options.adapters = {.rank = 2};
  models::Llama model(options);
  const accum::GradientBuffer buffer(model.parameters());
  const SegmentState state(buffer, model.segments());
  for (const bool backward : {false, true}) {
    EXPECT_THAT(weights_among(model, state.needed(0, backward)),
                Contains("model.embed_tokens.weight"));
    EXPECT_THAT(weights_among(model, state.needed(1, backward)),
                IsSupersetOf({"model.layers.0.self_attn.q_proj.weight",
                              "model.layers.0.mlp.down_proj.weight",
                              "model.layers.0.mlp.down_proj.lora_A.weight"}));
    EXPECT_THAT(weights_among(model, state.needed(1, backward)),
                Not(Contains("model.layers.1.mlp.down_proj.weight")));
    EXPECT_THAT(weights_among(model, state.needed(3, backward)), Contains("lm_head.weight"));
  }
}

TEST(SegmentState, HasFrozenParametersAndTheHeadThatIsTiedToThem) {
  const std::unique_ptr<models::Trainable> model = testing::tied_gpt2();
  models::freeze_parameters(*model, {"wte", "h.0"});
  const accum::GradientBuffer buffer(model->parameters());
  const SegmentState state(buffer, model->segments());
  EXPECT_THAT(weights_among(*model, state.needed(0, true)), Contains("transformer.wte.weight"));
  EXPECT_THAT(
      weights_among(*model, state.needed(1, true)),
      IsSupersetOf({"transformer.h.0.attn.c_attn.weight", "transformer.h.0.mlp.c_proj.weight"}));
  EXPECT_THAT(weights_among(*model, state.needed(3, true)), Contains("transformer.wte.weight"));
}

}  // namespace
}  // namespace accrue::train
