// Frozen linear layers in blocks (LlamaOptions::base).
#include "accrue/models/base_format.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>

#include "accrue/models/adapter_io.h"
#include "accrue/models/llama_gguf.h"
#include "accrue/models/llama_io.h"
#include "accrue/models/safetensors.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/plain/plain_operations.h"
#include "models/support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::close;
using accrue::testing::within;
using testing::context_of;
using testing::forward;
using ::testing::HasSubstr;
using testing::message_of;
using testing::random_batch;
using testing::TemporaryFolder;

struct BaseCase {
  BaseFormat base;
  Compute compute;
  AdapterKind kind = AdapterKind::lora;
};

/// One layer whose rows have whole blocks.
LlamaOptions options_in_blocks(const BaseCase& of) {
  const std::int64_t width = of.base == BaseFormat::q4_k ? 256 : 64;
  return {.layers = 1,
          .heads = 4,
          .kv_heads = 1,
          .head_width = width / 4,
          .width = width,
          .ffn_width = width,
          .context = 12,
          .vocab = 31,
          .variant = {.qkv_bias = true},
          .compute = of.compute,
          .adapters = {.rank = 2, .targets = {"q_proj", "o_proj", "down_proj"}, .kind = of.kind},
          .base = of.base};
}

/// The same shape, completely trained.
LlamaOptions whole_options(const BaseCase& of) {
  LlamaOptions options = options_in_blocks(of);
  options.variant = {};
  options.adapters = {};
  options.base = BaseFormat::as_stored;
  return options;
}

/// The model whose base has the values of the blocks of `model`, in the dtype of products.
std::unique_ptr<Llama> unpacked_model(const Llama& model) {
  LlamaOptions options = model.options();
  options.base = BaseFormat::as_stored;
  auto plain = std::make_unique<Llama>(options, Initialisation::zeros);
  plain->load_file_tensors(model.file_tensors(), "the model in blocks");
  return plain;
}

struct BasePass {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;
};

BasePass base_pass_of(Llama& model, const kernels::Operations* operations = nullptr) {
  const batch::MicroBatch micro = random_batch(model.options(), 3, 11);
  ForwardContext context = context_of(micro);
  if (operations != nullptr) context.operations = operations;
  std::vector<std::string> names;
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& parameter : model.parameters()) {
    if (!parameter.tensor.requires_grad()) continue;
    names.push_back(parameter.name);
    leaves.push_back(parameter.tensor);
  }
  BasePass pass{.loss = forward(model, micro, context).sum};
  const auto values = torch::autograd::grad({pass.loss}, leaves);
  for (std::size_t i = 0; i < names.size(); ++i) pass.gradients[names[i]] = values[i];
  return pass;
}

bool same_pass(const BasePass& a, const BasePass& b) {
  if (!at::equal(a.loss, b.loss) || a.gradients.size() != b.gradients.size()) return false;
  return std::all_of(a.gradients.begin(), a.gradients.end(), [&](const auto& gradient) {
    return at::equal(gradient.second, b.gradients.at(gradient.first));
  });
}

at::Tensor held_weight_of(const Llama& model, const std::string& name) {
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.name == name) return parameter.tensor.detach();
  ADD_FAILURE() << name << " is not there";
  return {};
}

constexpr const char* down_weight = "model.layers.0.mlp.down_proj.weight";

class BaseInBlocks : public ::testing::TestWithParam<BaseCase> {
 protected:
  BaseInBlocks() : model(options_in_blocks(GetParam())) { perturb_adapters(); }

  void perturb_adapters() {
    const at::NoGradGuard no_grad;
    at::manual_seed(3);
    for (const NamedParameter& parameter : model.parameters())
      if (parameter.tensor.requires_grad())
        at::Tensor(parameter.tensor).add_(0.1 * at::randn_like(parameter.tensor));
  }
  Llama model;
};
INSTANTIATE_TEST_SUITE_P(
    Kinds, BaseInBlocks,
    ::testing::Values(BaseCase{BaseFormat::q8_0, Compute::fp32},
                      BaseCase{BaseFormat::q8_0, Compute::bf16},
                      BaseCase{BaseFormat::q8_0, Compute::fp64, AdapterKind::dora},
                      BaseCase{BaseFormat::q4_k, Compute::bf16},
                      BaseCase{BaseFormat::q4_k, Compute::fp32, AdapterKind::dora}));

TEST_P(BaseInBlocks, GivesWhatItsUnpackedValuesGiveToTheBit) {
  const auto plain = unpacked_model(model);
  const BasePass expected = base_pass_of(*plain);
  EXPECT_TRUE(same_pass(base_pass_of(model), expected));
  held_weight_of(model, down_weight).select(2, 20).bitwise_xor_(0x44);
  EXPECT_FALSE(same_pass(base_pass_of(model), expected));
}

TEST_P(BaseInBlocks, GivesTheSameWithPackedWeights) {
  const BasePass expected = base_pass_of(model);
  model.pack_weights(true);
  EXPECT_TRUE(same_pass(base_pass_of(model), expected));
  EXPECT_EQ(model.packed_weight_bytes(), 0);
}

TEST_P(BaseInBlocks, IsReadByPlainOperations) {
  const at::ScalarType dtype = GetParam().compute == Compute::bf16   ? at::kBFloat16
                               : GetParam().compute == Compute::fp64 ? at::kDouble
                                                                     : at::kFloat;
  const BasePass ours = base_pass_of(model),
                 plain = base_pass_of(model, &kernels::plain_operations());
  const std::int64_t terms = 8 * model.options().width;
  EXPECT_TRUE(close(ours.loss, plain.loss, dtype, terms));
  for (const auto& [name, gradient] : ours.gradients)
    EXPECT_TRUE(close(gradient, plain.gradients.at(name), dtype, terms)) << name;
}

TEST_P(BaseInBlocks, CountsTheNumbersThatItHolds) {
  const auto plain = unpacked_model(model);
  EXPECT_EQ(parameter_count(model), parameter_count(*plain));
  EXPECT_EQ(model.flops_per_sample(), plain->flops_per_sample());
  const double bits = GetParam().base == BaseFormat::q8_0 ? 8.5 : 4.5;
  const at::Tensor weight = held_weight_of(model, down_weight);
  EXPECT_EQ(static_cast<double>(weight.nbytes()) * 8,
            bits * static_cast<double>(kernels::element_count(weight)));
}

TEST_P(BaseInBlocks, MergesItsUnpackedValues) {
  const auto plain = unpacked_model(model);
  const StoredTensors merged = merged_parameters(model), expected = merged_parameters(*plain);
  ASSERT_EQ(merged.size(), expected.size());
  for (std::size_t i = 0; i < merged.size(); ++i) {
    ASSERT_EQ(merged[i].name, expected[i].name);
    EXPECT_EQ(merged[i].shape, expected[i].shape);
    // The plain base is rounded to the dtype of products before the sum.
    EXPECT_TRUE(within(merged[i].read(), expected[i].read(),
                       GetParam().compute == Compute::bf16 ? 0x1p-8 : 1e-6))
        << merged[i].name;
  }
}

TEST_P(BaseInBlocks, ComesBackFromAFileAsItWas) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors", model.file_tensors());
  Llama again(model.options(), Initialisation::zeros);
  again.load_file_tensors(open_safetensors(folder / "model.safetensors").tensors, "the file");
  EXPECT_TRUE(same_pass(base_pass_of(again), base_pass_of(model)));
}

TEST_P(BaseInBlocks, IsPackedFromTheWeightsOfAFolder) {
  const TemporaryFolder folder;
  const Llama trained(whole_options(GetParam()));
  save_llama_folder(folder / "base", trained);
  const auto loaded = load_llama_folder(folder / "base", options_in_blocks(GetParam()));
  const at::Tensor blocks = held_weight_of(*loaded, down_weight),
                   values = held_weight_of(trained, down_weight);
  at::Tensor expected = at::empty_like(blocks);
  kernels::pack_into(expected, values);
  EXPECT_TRUE(at::equal(blocks, expected));
  const double share_of_largest = GetParam().base == BaseFormat::q8_0 ? 0.01 : 0.1;
  EXPECT_TRUE(within(kernels::unpacked(blocks, at::kFloat), values, share_of_largest));
}

TEST_P(BaseInBlocks, RefusesWeightsThatAreNotFinite) {
  const TemporaryFolder folder;
  const Llama trained(whole_options(GetParam()));
  {
    const at::NoGradGuard no_grad;
    for (const NamedParameter& parameter : trained.parameters())
      if (parameter.name == down_weight) parameter.tensor.select(0, 0).select(0, 0).fill_(NAN);
  }
  save_llama_folder(folder / "base", trained);
  const std::string message =
      message_of([&] { load_llama_folder(folder / "base", options_in_blocks(GetParam())); });
  EXPECT_THAT(message, HasSubstr(down_weight));
  EXPECT_THAT(message, HasSubstr("finite"));
}

/// Queries and keys have a different order of rows there.
TEST(BaseFormats, OfAGgufFileStayTheBlocksThatItHas) {
  const TemporaryFolder folder;
  LlamaOptions whole = options_in_blocks({BaseFormat::q8_0, Compute::fp32});
  whole.variant = {};
  whole.adapters = {};
  save_llama_gguf(folder / "base.gguf", Llama(whole), GgufDtype::q8_0);
  const auto plain = load_llama_gguf(folder / "base.gguf", {.compute = Compute::fp32});
  for (const BaseFormat base : {BaseFormat::as_stored, BaseFormat::q8_0}) {
    const auto model = load_llama_gguf(
        folder / "base.gguf", {.compute = Compute::fp32, .adapters = {.rank = 2}, .base = base});
    for (const NamedParameter& expected : plain->parameters()) {
      const at::Tensor held = held_weight_of(*model, expected.name);
      const bool is_layer = expected.name.find("_proj.weight") != std::string::npos;
      EXPECT_EQ(kernels::is_in_blocks(held), is_layer) << expected.name;
      EXPECT_TRUE(at::equal(kernels::unpacked(held, at::kFloat), expected.tensor)) << expected.name;
    }
  }
}

TEST(BaseFormats, NameTheMatrixWhoseRowsHaveNoWholeBlocks) {
  LlamaOptions options = options_in_blocks({BaseFormat::q8_0, Compute::fp32});
  options.base = BaseFormat::q4_k;
  EXPECT_THAT(message_of([&] { Llama model(options); }),
              ::testing::AllOf(HasSubstr("multiple of 256"), HasSubstr("q_proj.weight"),
                               HasSubstr("rows of 64"), HasSubstr("base = \"q8_0\"")));
  options.ffn_width = 72;
  options.base = BaseFormat::q8_0;
  EXPECT_THAT(message_of([&] { Llama model(options); }),
              ::testing::AllOf(HasSubstr("down_proj.weight with rows of 72"),
                               HasSubstr("base = \"bf16\"")));
}

TEST(BaseFormats, Bf16IsWidenedForProductsOfFp32) {
  Llama model(options_in_blocks({BaseFormat::bf16, Compute::fp32}));
  EXPECT_EQ(held_weight_of(model, down_weight).scalar_type(), at::kBFloat16);
  EXPECT_EQ(held_weight_of(model, "model.embed_tokens.weight").scalar_type(), at::kFloat);
  EXPECT_TRUE(same_pass(base_pass_of(model), base_pass_of(*unpacked_model(model))));
}

TEST(BaseFormats, AreOfFrozenLayersAlone) {
  LlamaOptions options = options_in_blocks({BaseFormat::q8_0, Compute::bf16});
  options.adapters = {};
  for (const NamedParameter& parameter : Llama(options).parameters())
    EXPECT_EQ(parameter.tensor.scalar_type(), at::kFloat) << parameter.name;
}

}  // namespace
}  // namespace accrue::models
