#include "accrue/models/gpt2_gguf.h"

#include "accrue/models/gpt2_io.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/container/gguf_writer.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::HasSubstr;

Gpt2Options small_gpt2() {
  return {.layers = 2, .heads = 4, .width = 32, .context = 16, .vocab = 40, .seed = 4};
}

void expect_same(const Gpt2& a, const Gpt2& b, double tolerance = 0) {
  const NamedParameters left = a.parameters(), right = b.parameters();
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_LE((left[i].tensor - right[i].tensor).abs().max().item<double>(), tolerance)
        << left[i].name;
  }
}

class Gpt2Gguf : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "model.gguf"; }

  /// Writes a model without some of its keys and tensors, but with the additions of `change`.
  void write_changed(const std::function<void(GgufKeyWriter&, std::vector<GgufOutput>&)>& change,
                     const std::vector<std::string>& without = {}) const {
    save_gpt2_gguf(file(), Gpt2(small_gpt2()), GgufDtype::f32);
    const GgufFile source(file());
    const auto kept = [&](const std::string& name) {
      return std::find(without.begin(), without.end(), name) == without.end();
    };
    GgufKeyWriter keys;
    keys.add("general.architecture", std::string("gpt2"));
    for (const char* key : {"gpt2.context_length", "gpt2.embedding_length", "gpt2.block_count",
                            "gpt2.feed_forward_length", "gpt2.attention.head_count"})
      if (kept(key)) keys.add(key, static_cast<std::uint32_t>(source.whole(key)));
    if (kept("gpt2.attention.layer_norm_epsilon"))
      keys.add("gpt2.attention.layer_norm_epsilon", 1e-5F);
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

  std::string refusal(const std::function<void(GgufKeyWriter&, std::vector<GgufOutput>&)>& change,
                      const std::vector<std::string>& without = {}) const {
    write_changed(change, without);
    const std::string message = message_of([&] { load_gpt2_gguf(file(), {}); });
    EXPECT_THAT(message, HasSubstr("model.gguf"));
    return message;
  }

  static GgufOutput tensor(const std::string& name, const at::Tensor& values) {
    return {.name = name, .type = GgufType::f32, .shape = values.sizes().vec(), .values = [=] {
              return values;
            }};
  }

  TemporaryFolder folder_;
};

TEST_F(Gpt2Gguf, AModelInF32IsTheSameModel) {
  Gpt2 model(small_gpt2());
  EXPECT_TRUE(save_gpt2_gguf(file(), model, GgufDtype::f32).empty());
  const auto read = load_gpt2_gguf(file(), {.dropout = 0.25, .seed = 9});
  expect_same(*read, model);
  EXPECT_EQ(read->options().dropout, 0.25);
  EXPECT_EQ(read->options().seed, 9U);
  EXPECT_EQ(read_gpt2_gguf_shape(file(), {}).context, 16);
  const at::Tensor ids = at::arange(12).reshape({1, 12}) * 3;
  EXPECT_TRUE(at::equal(read->next_token_logits(ids), model.next_token_logits(ids)));
}

TEST_F(Gpt2Gguf, OtherDtypesAreNear) {
  const Gpt2 model(small_gpt2());
  for (const auto& [dtype, tolerance] :
       {std::pair(GgufDtype::f16, 1e-4), std::pair(GgufDtype::bf16, 1e-3),
        std::pair(GgufDtype::q8_0, 1e-3)}) {
    save_gpt2_gguf(file(), model, dtype);
    expect_same(*load_gpt2_gguf(file(), {}), model, tolerance);
    EXPECT_EQ(GgufFile(file()).find("position_embd.weight")->type, GgufType::f32);
  }
}

TEST_F(Gpt2Gguf, AShorterContextKeepsTheFirstPositions) {
  const Gpt2 model(small_gpt2());
  save_gpt2_gguf(file(), model, GgufDtype::f32);
  save_gpt2_folder(folder_ / "folder", model);
  expect_same(*load_gpt2_gguf(file(), {}, 8), *load_gpt2_folder(folder_ / "folder", {}, 8));
  EXPECT_THAT(message_of([&] { load_gpt2_gguf(file(), {}, 17); }), HasSubstr("16"));
}

TEST_F(Gpt2Gguf, AHeadBesidesTheEmbeddingHasItsValues) {
  const auto with_head = [](double offset) {
    return [=](GgufKeyWriter&, std::vector<GgufOutput>& tensors) {
      for (const GgufOutput& one : tensors)
        if (one.name == "token_embd.weight") {
          const at::Tensor values = one.values() + offset;
          tensors.push_back(tensor("output.weight", values));
          return;
        }
    };
  };
  write_changed(with_head(0));
  expect_same(*load_gpt2_gguf(file(), {}), Gpt2(small_gpt2()));
  EXPECT_THAT(refusal(with_head(1e-3)), HasSubstr("a tied head"));
}

TEST_F(Gpt2Gguf, KeysThatAreMissingOrNoGpt2sAreNamed) {
  const auto nothing = [](auto&, auto&) {};
  const auto with = [](const std::string& key, auto value) {
    return [=](GgufKeyWriter& keys, auto&) { keys.add(key, value); };
  };
  EXPECT_THAT(refusal(nothing, {"gpt2.block_count"}), HasSubstr("gpt2.block_count"));
  EXPECT_THAT(refusal(with("gpt2.attention.head_count_kv", std::uint32_t{2})),
              HasSubstr("gpt2.attention.head_count_kv"));
  EXPECT_THAT(refusal(nothing, {"gpt2.attention.layer_norm_epsilon"}),
              HasSubstr("layer_norm_epsilon"));
  EXPECT_THAT(
      refusal(with("gpt2.feed_forward_length", std::uint32_t{64}), {"gpt2.feed_forward_length"}),
      HasSubstr("ffn_up.weight"));
}

TEST_F(Gpt2Gguf, KeepsTheEpsilonOfItsNorms) {
  write_changed(
      [](GgufKeyWriter& keys, auto&) { keys.add("gpt2.attention.layer_norm_epsilon", 1e-6F); },
      {"gpt2.attention.layer_norm_epsilon"});
  const auto loaded = load_gpt2_gguf(file(), {});
  EXPECT_EQ(loaded->options().norm_eps, 1e-6);
  save_gpt2_gguf(file(), *loaded, GgufDtype::f32);
  EXPECT_EQ(load_gpt2_gguf(file(), {})->options().norm_eps, 1e-6);
}

TEST_F(Gpt2Gguf, ShapesThatTheFileDoesNotFillAreRefusedBeforeTheyAreAllocated) {
  for (const char* key : {"gpt2.block_count", "gpt2.embedding_length", "gpt2.context_length"})
    for (const std::uint32_t value : {0U, 1'000'000'000U, 4'000'000'000U})
      refusal([&](GgufKeyWriter& keys, auto&) { keys.add(key, value); }, {key});
}

TEST_F(Gpt2Gguf, TensorsThatAreMissingOrMoreAreNamed) {
  const auto nothing = [](auto&, auto&) {};
  EXPECT_THAT(refusal(nothing, {"blk.1.ffn_up.weight"}), HasSubstr("tensors for 2 layers"));
  EXPECT_THAT(refusal(nothing, {"blk.1.attn_norm.bias"}), HasSubstr("tensors for 2 layers"));
  EXPECT_THAT(refusal(nothing, {"position_embd.weight"}), HasSubstr("position_embd.weight"));
  const auto more = [](const std::string& name, const at::Tensor& values) {
    return
        [=](auto&, std::vector<GgufOutput>& tensors) { tensors.push_back(tensor(name, values)); };
  };
  EXPECT_THAT(refusal(more("blk.0.ffn_gate.weight", at::ones({32, 32}))),
              HasSubstr("blk.0.ffn_gate.weight"));
  EXPECT_THAT(refusal(more("blk.2.attn_norm.weight", at::ones({32}))), HasSubstr("h.2.ln_1"));
  EXPECT_THAT(refusal(more("blk.2.attn_qkv.weight", at::ones({32}))), HasSubstr("1 dimensions"));
}

TEST_F(Gpt2Gguf, AdaptersHaveTheirOwnFileOrAreMerged) {
  Gpt2Options adapted = small_gpt2();
  EXPECT_THAT(message_of([&] { save_gpt2_gguf_adapter(file(), Gpt2(adapted)); }),
              HasSubstr("a model that has adapters"));
  adapted.adapters = {.rank = 2, .alpha = 6, .targets = {"c_attn"}};
  const Gpt2 model(adapted);
  save_gpt2_gguf_adapter(file(), model);
  const GgufFile apart(file());
  EXPECT_EQ(apart.number("adapter.lora.alpha"), 6);
  ASSERT_EQ(apart.tensors().size(), 4U);
  EXPECT_EQ(apart.find("blk.0.attn_qkv.weight.lora_a")->shape, (std::vector<std::int64_t>{2, 32}));
  EXPECT_EQ(apart.find("blk.1.attn_qkv.weight.lora_b")->shape, (std::vector<std::int64_t>{96, 2}));
  save_gpt2_gguf(file(), model, GgufDtype::f32);
  save_gpt2_folder(folder_ / "folder", model);
  expect_same(*load_gpt2_gguf(file(), {}), *load_gpt2_folder(folder_ / "folder", {}));
}

}  // namespace
}  // namespace accrue::models
