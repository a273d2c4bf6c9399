#include "accrue/models/llama_gguf.h"

#include "accrue/models/llama_io.h"
#include "core/atomic_file.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/container/gguf_writer.h"
#include "models/files/gguf/models/llama_gguf_rotary.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::HasSubstr;

LlamaOptions options() {
  return {.layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .width = 32,
          .ffn_width = 64,
          .context = 16,
          .vocab = 40,
          .compute = Compute::fp32,
          .seed = 4};
}

void expect_same_tensors(const Llama& a, const Llama& b, double tolerance = 0) {
  const NamedParameters left = a.file_tensors(), right = b.file_tensors();
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_LE((left[i].tensor - right[i].tensor).abs().max().item<double>(), tolerance)
        << left[i].name;
  }
}

class LlamaGguf : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "model.gguf"; }

  /// Writes a model with keys and tensors changed by `change`, and returns the refusal to load it.
  std::string refusal(const std::function<void(GgufKeyWriter&, std::vector<GgufOutput>&)>& change,
                      const std::vector<std::string>& without = {}) const {
    write_changed(change, without);
    const std::string message = message_of([&] { load_llama_gguf(file(), {}); });
    EXPECT_THAT(message, HasSubstr("model.gguf"));
    return message;
  }

  void write_changed(const std::function<void(GgufKeyWriter&, std::vector<GgufOutput>&)>& change,
                     const std::vector<std::string>& without) const {
    save_llama_gguf(file(), Llama(options()), GgufDtype::f32);
    const GgufFile source(file());
    GgufKeyWriter keys;
    const auto kept = [&](const std::string& name) {
      return std::find(without.begin(), without.end(), name) == without.end();
    };
    for (const char* key :
         {"context_length", "embedding_length", "block_count", "feed_forward_length",
          "attention.head_count", "attention.head_count_kv"})
      if (const std::string name = std::string("llama.") + key; kept(name))
        keys.add(name, static_cast<std::uint32_t>(source.whole(name)));
    if (kept("general.architecture")) keys.add("general.architecture", std::string("llama"));
    keys.add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    std::vector<GgufOutput> tensors;
    for (const GgufTensor& tensor : source.tensors())
      if (kept(tensor.name))
        tensors.push_back({.name = tensor.name,
                           .type = GgufType::f32,
                           .shape = tensor.shape,
                           .values = [values = source.stored(tensor).read()] { return values; }});
    change(keys, tensors);
    write_gguf(file(), keys, tensors);
  }

  TemporaryFolder folder_;
};

TEST_F(LlamaGguf, AModelInF32IsTheSameModel) {
  Llama model(options());
  save_llama_gguf(file(), model, GgufDtype::f32);
  ASSERT_TRUE(is_gguf(file()));
  const auto read = load_llama_gguf(file(), {.compute = Compute::fp32});
  expect_same_tensors(*read, model);
  EXPECT_EQ(read->options().variant, model.options().variant);
  EXPECT_EQ(read->context(), 16);
  const at::Tensor ids = at::arange(12).reshape({1, 12}) * 3;
  EXPECT_TRUE(at::equal(read->next_token_logits(ids), model.next_token_logits(ids)));
}

TEST_F(LlamaGguf, OtherDtypesAreNear) {
  const Llama model(options());
  for (const auto& [dtype, tolerance] :
       {std::pair(GgufDtype::f16, 1e-4), std::pair(GgufDtype::bf16, 1e-3),
        std::pair(GgufDtype::q8_0, 1e-3)}) {
    save_llama_gguf(file(), model, dtype);
    expect_same_tensors(*load_llama_gguf(file(), {}), model, tolerance);
  }
}

TEST_F(LlamaGguf, AFolderOfWhatWasReadIsTheSameModel) {
  const Llama model(options());
  save_llama_gguf(file(), model, GgufDtype::f32);
  save_llama_folder(folder_ / "folder", *load_llama_gguf(file(), {}));
  expect_same_tensors(*load_llama_folder(folder_ / "folder", {}), model);
}

TEST_F(LlamaGguf, AShorterContextIsTaken) {
  save_llama_gguf(file(), Llama(options()), GgufDtype::f32);
  EXPECT_EQ(load_llama_gguf(file(), {}, 8)->context(), 8);
  EXPECT_THAT(message_of([&] { load_llama_gguf(file(), {}, 17); }), HasSubstr("16"));
}

TEST_F(LlamaGguf, KeysThatAreMissingOrNoLlamasAreNamed) {
  const auto nothing = [](auto&, auto&) {};
  EXPECT_THAT(refusal(nothing, {"general.architecture"}), HasSubstr("general.architecture"));
  EXPECT_THAT(refusal(nothing, {"llama.block_count"}), HasSubstr("llama.block_count"));
  EXPECT_THAT(refusal([](GgufKeyWriter& keys,
                         auto&) { keys.add("general.architecture", std::string("mamba")); },
                      {"general.architecture"}),
              HasSubstr("received \"mamba\""));
  EXPECT_THAT(
      refusal([](GgufKeyWriter& keys, auto&) { keys.add("llama.expert_count", std::uint32_t{8}); }),
      HasSubstr("llama.expert_count"));
  EXPECT_THAT(refusal([](GgufKeyWriter& keys, auto&) { keys.add("llama.rope.freq_base", NAN); }),
              HasSubstr("a finite number"));
  EXPECT_THAT(refusal([](GgufKeyWriter& keys, auto&) {
                keys.add("llama.rope.dimension_count", std::uint32_t{4});
              }),
              HasSubstr("llama.rope.dimension_count"));
  EXPECT_THAT(refusal([](GgufKeyWriter& keys, auto&) {
                keys.add("llama.rope.scaling.type", std::string("longrope"));
              }),
              HasSubstr("longrope"));
}

TEST_F(LlamaGguf, ShapesThatTheFileDoesNotFillAreRefusedBeforeTheyAreAllocated) {
  const auto with_key = [](const std::string& name, std::uint32_t value) {
    return [=](GgufKeyWriter& keys, auto&) { keys.add(name, value); };
  };
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
        "llama.attention.head_count_kv", "llama.attention.head_count"})
    for (const std::uint32_t value : {0U, 1U, 4'000'000'000U}) refusal(with_key(key, value), {key});
}

TEST_F(LlamaGguf, TensorsThatAreMissingOrMoreAreNamed) {
  const auto nothing = [](auto&, auto&) {};
  EXPECT_THAT(refusal(nothing, {"blk.1.ffn_up.weight"}),
              HasSubstr("expected tensors for 2 layers"));
  EXPECT_THAT(refusal(nothing, {"token_embd.weight"}), HasSubstr("token_embd.weight"));
  const auto more = [](const std::string& name) {
    return [=](auto&, std::vector<GgufOutput>& tensors) {
      tensors.push_back({.name = name, .type = GgufType::f32, .shape = {32}, .values = [] {
                           return at::ones({32});
                         }});
    };
  };
  EXPECT_THAT(refusal(more("blk.0.ffn_gate_inp.weight")), HasSubstr("blk.0.ffn_gate_inp.weight"));
  EXPECT_THAT(refusal(more("blk.2.attn_norm.weight")),
              HasSubstr("layers.2.input_layernorm.weight"));
}

TEST_F(LlamaGguf, WhatIsNoGgufIsNone) {
  EXPECT_FALSE(is_gguf(folder_ / "none"));
  write_file_atomically(file(), "GGU");
  EXPECT_FALSE(is_gguf(file()));
  message_of([&] { load_llama_gguf(file(), {}); });
  EXPECT_FALSE(is_gguf(file().parent_path()));
}

TEST_F(LlamaGguf, AdaptersHaveTheirOwnFile) {
  LlamaOptions adapted = options();
  EXPECT_THAT(message_of([&] { save_llama_gguf_adapter(file(), Llama(adapted)); }),
              HasSubstr("a model that has adapters"));
  adapted.adapters = {.rank = 2, .kind = AdapterKind::dora};
  EXPECT_THAT(message_of([&] { save_llama_gguf_adapter(file(), Llama(adapted)); }),
              HasSubstr("received dora"));
  adapted.adapters = {.rank = 2, .alpha = 6, .targets = {"v_proj"}};
  save_llama_gguf_adapter(file(), Llama(adapted));
  const GgufFile read(file());
  EXPECT_EQ(read.number("adapter.lora.alpha"), 6);
  ASSERT_EQ(read.tensors().size(), 4U);
  EXPECT_EQ(read.find("blk.0.attn_v.weight.lora_a")->shape, (std::vector<std::int64_t>{2, 32}));
  EXPECT_EQ(read.find("blk.1.attn_v.weight.lora_b")->shape, (std::vector<std::int64_t>{16, 2}));
  EXPECT_THAT(message_of([&] { load_llama_gguf(file(), {}); }), HasSubstr("model.gguf"));
}

TEST_F(LlamaGguf, AdaptersAreMergedIntoTheModel) {
  LlamaOptions adapted = options();
  adapted.adapters = {.rank = 2, .targets = {"q_proj"}};
  Llama model(adapted);
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.name.ends_with("lora_B.weight")) {
      const at::NoGradGuard no_grad;
      parameter.tensor.fill_(0.1);
    }
  save_llama_gguf(file(), model, GgufDtype::f32);
  save_llama_folder(folder_ / "folder", model);
  expect_same_tensors(*load_llama_gguf(file(), {}), *load_llama_folder(folder_ / "folder", {}));
}

TEST(LlamaGgufRotary, FactorsTellTheScalingThatMadeThem) {
  const RotaryOptions scaled{.base = 500'000, .scaling = RotaryScaling::llama3, .factor = 32};
  const auto factors = llama3_factors(scaled, 64);
  ASSERT_EQ(factors.size(), 32U);
  EXPECT_EQ(factors.front(), 1) << "a fast channel is kept";
  EXPECT_NEAR(factors.back(), 32, 1e-12) << "a slow one is divided";
  EXPECT_EQ(llama3_of_factors(factors, 500'000, 0), scaled);
  EXPECT_EQ(llama3_of_factors(factors, 10'000, 0), std::nullopt) << "of another base";
}

}  // namespace
}  // namespace accrue::models
