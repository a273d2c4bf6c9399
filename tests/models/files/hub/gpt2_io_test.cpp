#include "accrue/models/gpt2_io.h"

#include <nlohmann/json.hpp>

#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using nlohmann::json;
using ::testing::HasSubstr;

double loss_of(Gpt2& model, const batch::MicroBatch& micro) {
  return evaluate(model, micro, context_of(micro)).sum.item<double>();
}

void change_config(const std::filesystem::path& folder, const std::string& key, const json& value) {
  const auto path = folder / "config.json";
  json config = json::parse(read_file(path));
  if (value.is_discarded()) {
    config.erase(key);
  } else {
    config[key] = value;
  }
  write_file_atomically(path, config.dump());
}

void change_tensors(const std::filesystem::path& folder,
                    const std::function<void(NamedParameters&)>& change) {
  const auto path = folder / "model.safetensors";
  NamedParameters tensors = read_safetensors(path).tensors;
  change(tensors);
  write_safetensors(path, tensors);
}

at::Tensor& find(NamedParameters& tensors, const std::string& name) {
  for (NamedParameter& parameter : tensors)
    if (parameter.name == name) return parameter.tensor;
  throw std::out_of_range(name);
}

TEST(Gpt2Folder, RoundTripKeepsEveryBitAndTheOptionsThatAreNotShape) {
  for (const Compute compute : {Compute::fp32, Compute::bf16, Compute::fp64}) {
    const TemporaryFolder folder;
    Gpt2 model(small(compute));
    perturb(model);
    save_gpt2_folder(folder / "a/b", model);
    const auto loaded =
        load_gpt2_folder(folder / "a/b", {.dropout = 0.25, .compute = compute, .seed = 9});
    EXPECT_EQ(loaded->options().layers, 2);
    EXPECT_EQ(loaded->options().context, 12);
    EXPECT_EQ(loaded->options().dropout, 0.25);
    EXPECT_EQ(loaded->options().seed, 9U);
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      EXPECT_EQ(loaded->parameters()[i].name, model.parameters()[i].name);
      EXPECT_TRUE(at::equal(loaded->parameters()[i].tensor, model.parameters()[i].tensor));
    }
  }
}

/// Attention is causal: results within the context do not depend on further positions.
TEST(Gpt2Folder, AShorterContextKeepsTheFirstPositions) {
  const TemporaryFolder folder;
  Gpt2 model(small());
  perturb(model);
  save_gpt2_folder(folder / "a", model);
  const auto shorter = load_gpt2_folder(folder / "a", small(), 5);
  EXPECT_EQ(shorter->options().context, 5);
  const batch::MicroBatch micro = random_batch(small(), 3, 5);
  EXPECT_EQ(loss_of(*shorter, micro), loss_of(model, micro));
  EXPECT_THAT(message_of([&] { loss_of(*shorter, random_batch(small(), 1, 6)); }),
              HasSubstr("T <= 5"));

  save_gpt2_folder(folder / "b", *shorter);
  EXPECT_EQ(json::parse(read_file(folder / "b/config.json"))["n_positions"], 5);
  EXPECT_EQ(loss_of(*load_gpt2_folder(folder / "b", small()), micro), loss_of(model, micro));
  change_tensors(folder / "b", [](NamedParameters& tensors) {
    at::Tensor& rows = find(tensors, "transformer.wpe.weight");
    rows = rows.flip(0);
  });
  EXPECT_NE(loss_of(*load_gpt2_folder(folder / "b", small()), micro), loss_of(model, micro))
      << "other rows would be seen";
}

TEST(Gpt2Folder, ALongerContextThanItsOwnIsRefused) {
  const TemporaryFolder folder;
  save_gpt2_folder(folder / "a", Gpt2(small()));
  EXPECT_NO_THROW(load_gpt2_folder(folder / "a", small(), 12));
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder / "a", small(), 13); }),
              ::testing::AllOf(HasSubstr("model.context = 13"), HasSubstr("12 positions")));
  change_config(folder / "a", "n_positions", 20);
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder / "a", small(), 5); }),
              ::testing::AllOf(HasSubstr("wpe"), HasSubstr("20 rows"), HasSubstr("[12, 24]")));
}

TEST(Gpt2Folder, StoresBlockMatricesTransposedInTheMastersDtype) {
  const TemporaryFolder folder;
  const Gpt2 model(small(Compute::bf16));
  save_gpt2_folder(folder / "a", model);
  TensorFile file = read_safetensors(folder / "a/model.safetensors");
  EXPECT_EQ(file.metadata.at("format"), "pt");
  const at::Tensor& stored = find(file.tensors, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(stored.sizes(), (std::vector<std::int64_t>{24, 72}));
  EXPECT_EQ(stored.scalar_type(), at::kFloat);
  EXPECT_EQ(find(file.tensors, "transformer.wte.weight").sizes(),
            (std::vector<std::int64_t>{31, 24}));
  EXPECT_EQ(file.tensors.size(), model.parameters().size());
  NamedParameters parameters = model.parameters();
  // A square matrix has the same shape either way.
  for (const char* name : {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
    const std::string full = std::string("transformer.h.1.") + name + ".weight";
    EXPECT_TRUE(at::equal(find(file.tensors, full), find(parameters, full).t())) << name;
  }
}

TEST(Gpt2Folder, DoesNotOverwriteAModel) {
  const TemporaryFolder folder;
  const Gpt2 model(small());
  save_gpt2_folder(folder / "a", model);
  EXPECT_THAT(message_of([&] { save_gpt2_folder(folder / "a", model); }), HasSubstr("config.json"));
  std::filesystem::remove(folder / "a/config.json");
  EXPECT_THAT(message_of([&] { save_gpt2_folder(folder / "a", model); }),
              HasSubstr("model.safetensors"));
}

TEST(Gpt2Folder, LoadsNamesWithoutPrefixATiedHeadAndOldMasks) {
  const TemporaryFolder folder;
  Gpt2 model(small());
  perturb(model);
  save_gpt2_folder(folder / "a", model);
  change_tensors(folder / "a", [](NamedParameters& tensors) {
    for (NamedParameter& parameter : tensors)
      parameter.name = parameter.name.substr(std::string("transformer.").size());
    tensors.push_back({"lm_head.weight", find(tensors, "wte.weight").clone()});
    tensors.push_back({"h.0.attn.bias", at::ones({1, 1, 12, 12}, at::kBool)});
    tensors.push_back({"h.0.attn.masked_bias", at::scalar_tensor(-1e4)});
  });
  const batch::MicroBatch micro = random_batch(model.options(), 2, 12);
  EXPECT_EQ(loss_of(*load_gpt2_folder(folder / "a", small()), micro), loss_of(model, micro));
}

TEST(Gpt2Folder, RefusesTensorsThatDoNotFitByName) {
  const Gpt2 model(small());
  const auto message = [&](const std::function<void(NamedParameters&)>& change) {
    const TemporaryFolder folder;
    save_gpt2_folder(folder / "a", model);
    change_tensors(folder / "a", change);
    const std::string text = message_of([&] { load_gpt2_folder(folder / "a", small()); });
    EXPECT_THAT(text, HasSubstr((folder / "a/model.safetensors").string()));
    return text;
  };
  const std::string name = "transformer.h.1.mlp.c_fc.weight";
  EXPECT_THAT(message([&](auto& t) { std::swap(find(t, name), t.back().tensor); }),
              HasSubstr(name));
  EXPECT_THAT(
      message([&](auto& t) { std::erase_if(t, [&](const auto& p) { return p.name == name; }); }),
      ::testing::AllOf(HasSubstr(name), HasSubstr("no such tensor")));
  EXPECT_THAT(message([](auto& t) {
                t.push_back({"wte.weight", at::ones({31, 24})});
              }),
              HasSubstr("wte.weight"));
  EXPECT_THAT(message([](auto& t) {
                t.push_back({"lm_head.weight", at::ones({31, 24})});
              }),
              HasSubstr("tied head"));
  EXPECT_THAT(message([&](auto& t) { find(t, name) = find(t, name).t().contiguous(); }),
              ::testing::AllOf(HasSubstr("[24, 96]"), HasSubstr("[96, 24]")));
  EXPECT_THAT(message([&](auto& t) { find(t, name) = find(t, name).to(at::kInt); }),
              ::testing::AllOf(HasSubstr(name), HasSubstr("floating")));
}

TEST(Gpt2Folder, RefusesConfigsOfOtherModelsByKey) {
  const TemporaryFolder folder;
  save_gpt2_folder(folder / "good", Gpt2(small()));
  const auto message = [&](const std::string& key, const json& value) {
    const auto path = folder / "changed";
    std::filesystem::remove_all(path);
    std::filesystem::copy(folder / "good", path);
    change_config(path, key, value);
    const std::string text = message_of([&] { load_gpt2_folder(path, small()); });
    EXPECT_THAT(text, HasSubstr((path / "config.json").string()));
    return text;
  };
  const json absent = json(json::value_t::discarded);
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"model_type", "llama"},
           {"model_type", absent},
           {"n_layer", nullptr},
           {"hidden_size", nullptr},
           {"num_hidden_layers", "2"},
           {"n_head", "3"},
           {"n_embd", 24.5},
           {"n_embd", -8},
           {"n_layer", 0},
           {"vocab_size", std::int64_t{1} << 40},
           {"n_positions", nullptr},
           {"vocab_size", json::array()},
           {"activation_function", "relu"},
           {"activation_function", nullptr},
           {"activation_function", "gelu"},
           {"layer_norm_epsilon", 1.0},
           {"layer_norm_epsilon", "1e-5"},
           {"is_causal", false},
           {"per_layer_config", {{"0", {{"n_inner", 8}}}}},
           {"quantization_config", {{"bits", 8}}},
           {"scale_attn_weights", false},
           {"scale_attn_by_inverse_layer_idx", true},
           {"add_cross_attention", true},
           {"tie_word_embeddings", false},
           {"n_inner", 0},
       })
    EXPECT_THAT(message(key, value), HasSubstr(key)) << value;
}

TEST(Gpt2Folder, AcceptsWhatMeansTheSame) {
  const TemporaryFolder folder;
  save_gpt2_folder(folder / "a", Gpt2(small()));
  change_config(folder / "a", "activation_function", "gelu_pytorch_tanh");
  change_config(folder / "a", "n_inner", 96);
  change_config(folder / "a", "tie_word_embeddings", json(json::value_t::discarded));
  EXPECT_NO_THROW(load_gpt2_folder(folder / "a", small()));
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"activation_function", json(json::value_t::discarded)},
           {"activation_function", "gelu_fast"},
           {"n_ctx", 7},
           {"reorder_and_upcast_attn", true},
           {"summary_type", "mean"},
           {"is_causal", true},
           {"hidden_size", 24},
           {"n_layer", json(json::value_t::discarded)},  // stated by the next one
           {"num_hidden_layers", 2}}) {
    change_config(folder / "a", key, value);
    if (key == "n_layer") continue;
    EXPECT_NO_THROW(load_gpt2_folder(folder / "a", small())) << key;
  }
}

TEST(Gpt2Folder, TakesTheNamesOfOtherModelsBeforeItsOwn) {
  const TemporaryFolder folder;
  save_gpt2_folder(folder / "a", Gpt2(small()));
  change_config(folder / "a", "max_position_embeddings", 9);
  EXPECT_EQ(read_gpt2_shape(folder / "a", small()).context, 9);
  change_config(folder / "a", "num_attention_heads", 4);
  EXPECT_EQ(read_gpt2_shape(folder / "a", small()).heads, 4);
}

/// A feed-forward part of a different width, and norms with a different eps.
TEST(Gpt2Folder, ReadsAndWritesWhatIsNotUsual) {
  const TemporaryFolder folder;
  Gpt2Options options = small();
  options.ffn_width = 40;
  options.norm_eps = 1e-3;
  Gpt2 model(options);
  perturb(model);
  save_gpt2_folder(folder / "a", model);
  const auto loaded = load_gpt2_folder(folder / "a", small());
  EXPECT_EQ(loaded->options().ffn_width, 40);
  EXPECT_EQ(loaded->options().norm_eps, 1e-3);
  const batch::MicroBatch micro = random_batch(options, 2, 12);
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(model, micro));
  change_config(folder / "a", "layer_norm_epsilon", 1e-5);
  EXPECT_NE(loss_of(*load_gpt2_folder(folder / "a", small()), micro), loss_of(model, micro));
  change_config(folder / "a", "n_inner", 96);
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder / "a", small()); }), HasSubstr("c_fc"));
}

/// safetensors.torch.save_model stores shared memory under one name.
TEST(Gpt2Folder, ATiedHeadMayBeInThePlaceOfTheEmbedding) {
  const TemporaryFolder folder;
  Gpt2 model(small());
  perturb(model);
  save_gpt2_folder(folder / "a", model);
  change_tensors(folder / "a", [](NamedParameters& tensors) {
    for (NamedParameter& parameter : tensors)
      if (parameter.name == "transformer.wte.weight") parameter.name = "lm_head.weight";
  });
  const batch::MicroBatch micro = random_batch(model.options(), 2, 12);
  EXPECT_EQ(loss_of(*load_gpt2_folder(folder / "a", small()), micro), loss_of(model, micro));
}

TEST(Gpt2Folder, LeavesOutTensorsOfOthersAndNamesThem) {
  const TemporaryFolder folder;
  Gpt2 model(small());
  perturb(model);
  save_gpt2_folder(folder / "a", model);
  change_tensors(folder / "a", [](NamedParameters& tensors) {
    tensors.push_back({"transformer.h.2.ln_1.weight", at::ones(24)});
    tensors.push_back({"score.weight", at::ones({2, 24})});
    tensors.push_back({"transformer.h.0.attn.bias", at::ones({1, 1, 12, 12}, at::kBool)});
  });
  const auto loaded = load_gpt2_folder(folder / "a", small());
  const batch::MicroBatch micro = random_batch(model.options(), 2, 12);
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(model, micro));
  EXPECT_THAT(tensors_left_out(folder / "a", *loaded),
              ::testing::UnorderedElementsAre("transformer.h.2.ln_1.weight", "score.weight"));
}

TEST(Gpt2Folder, NamesMissingAndBrokenFiles) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder / "none", small()); }),
              HasSubstr("none/config.json"));
  save_gpt2_folder(folder / "a", Gpt2(small()));
  std::filesystem::remove(folder / "a/model.safetensors");
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder / "a", small()); }),
              HasSubstr("a/model.safetensors"));
  write_file_atomically(folder / "a/config.json", "{");
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder / "a", small()); }), HasSubstr("JSON"));
}

TEST(LoadHuggingFace, ChangesNothingWhereOneTensorDoesNotFit) {
  Gpt2 model(small());
  NamedParameters tensors = to_hugging_face(Gpt2(small()).parameters());
  const at::Tensor before = model.parameters().front().tensor.detach().clone();
  tensors.front().tensor = at::ones_like(tensors.front().tensor);
  tensors.pop_back();
  message_of([&] { load_hugging_face(model, tensors, "memory"); });
  EXPECT_TRUE(at::equal(model.parameters().front().tensor, before));
}

TEST(LoadHuggingFace, IsSeenByCopiesInLowPrecision) {
  Gpt2Options options = small(Compute::bf16);
  Gpt2 model(options);
  options.seed = 99;
  Gpt2 other(options);
  perturb(other);
  const batch::MicroBatch micro = random_batch(options, 2, 12);
  EXPECT_NE(loss_of(model, micro), loss_of(other, micro));  // makes the copies
  load_hugging_face(model, to_hugging_face(other.parameters()), "memory");
  EXPECT_EQ(loss_of(model, micro), loss_of(other, micro));

  perturb(other);
  EXPECT_NE(loss_of(model, micro), loss_of(other, micro));
  const TemporaryFolder folder;
  write_safetensors(folder / "a", to_hugging_face(other.parameters()));
  load_hugging_face(model, open_safetensors(folder / "a").tensors, "a file");
  EXPECT_EQ(loss_of(model, micro), loss_of(other, micro));
}

}  // namespace
}  // namespace accrue::models
