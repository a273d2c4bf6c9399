#include "accrue/models/llama_io.h"

#include <nlohmann/json.hpp>

#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/config/llama_config.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using nlohmann::json;
using ::testing::HasSubstr;

/// The files that transformers wrote for small models of each family, without its omitted keys.
json config_of(const std::string& model_type) {
  json config = {{"model_type", model_type}, {"vocab_size", 31},
                 {"hidden_size", 16},        {"intermediate_size", 20},
                 {"num_hidden_layers", 4},   {"num_attention_heads", 4},
                 {"num_key_value_heads", 2}, {"max_position_embeddings", 12},
                 {"eos_token_id", {1, 7}},   {"torch_dtype", "bfloat16"},
                 {"rms_norm_eps", 1e-5},     {"rope_theta", 500.0}};
  if (model_type.starts_with("gemma") || model_type == "qwen3") config["head_dim"] = 6;
  if (model_type.starts_with("gemma")) config["query_pre_attn_scalar"] = 9;
  return config;
}

LlamaOptions options_of(const json& config) {
  return parse_llama_config(config.dump(), "folder/config.json", {});
}

std::string refusal_of(const json& config) {
  const std::string message = message_of([&] { options_of(config); });
  EXPECT_THAT(message, HasSubstr("folder/config.json"));
  return message;
}

TEST(LlamaConfig, StatesTheVariantOfEachFamily) {
  const LlamaVariant llama = options_of(config_of("llama")).variant;
  EXPECT_EQ(llama, (LlamaVariant{.tied_head = false, .rotary = {.base = 500}}));

  const LlamaVariant mistral = options_of(config_of("mistral")).variant;
  EXPECT_EQ(mistral.window, 4096) << "what transformers takes where the key is left out";
  EXPECT_TRUE(mistral.local_layers.empty());

  EXPECT_EQ(options_of(config_of("ministral")).variant, mistral);

  const LlamaVariant qwen2 = options_of(config_of("qwen2")).variant;
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias);
  EXPECT_EQ(qwen2.window, 0);

  const LlamaVariant qwen3 = options_of(config_of("qwen3")).variant;
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);

  const LlamaVariant gemma = options_of(config_of("gemma")).variant;
  EXPECT_EQ(gemma, (LlamaVariant{.offset_norms = true,
                                 .scaled_embedding = true,
                                 .activation = kernels::GateActivation::gelu_tanh,
                                 .rotary = {.base = 500}}));

  const LlamaVariant gemma2 = options_of(config_of("gemma2")).variant;
  EXPECT_TRUE(gemma2.tied_head && gemma2.post_norms && gemma2.offset_norms &&
              gemma2.scaled_embedding);
  EXPECT_FALSE(gemma2.qk_norm);
  EXPECT_EQ(gemma2.activation, kernels::GateActivation::gelu_tanh);
  EXPECT_EQ(gemma2.local_layers, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(gemma2.attention_soft_cap, 50);
  EXPECT_EQ(gemma2.logit_soft_cap, 30);
  EXPECT_EQ(gemma2.query_scalar, 9);

  json config = config_of("gemma3_text");
  config["sliding_window_pattern"] = 3;
  config["rope_local_base_freq"] = 90;
  const LlamaVariant gemma3 = options_of(config).variant;
  EXPECT_TRUE(gemma3.qk_norm);
  EXPECT_EQ(gemma3.local_layers, (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(gemma3.rotary.base, 500);
  EXPECT_EQ(gemma3.local_rotary->base, 90);
  EXPECT_EQ(gemma3.attention_soft_cap, 0);
}

TEST(LlamaConfig, ReadsShapesAndWhatIsLeftOut) {
  json config = config_of("llama");
  config.erase("num_key_value_heads");
  const LlamaOptions options = options_of(config);
  EXPECT_EQ(options.layers, 4);
  EXPECT_EQ(options.heads, 4);
  EXPECT_EQ(options.kv_heads, 4) << "as many as queries have";
  EXPECT_EQ(options.head_width, 4);
  EXPECT_EQ(options.width, 16);
  EXPECT_EQ(options.ffn_width, 20);
  EXPECT_EQ(options.context, 12);
  EXPECT_EQ(options.vocab, 31);
  config["head_dim"] = 8;
  config["tie_word_embeddings"] = true;
  config["attention_bias"] = true;
  EXPECT_EQ(options_of(config).head_width, 8);
  EXPECT_TRUE(options_of(config).variant.tied_head);
  EXPECT_TRUE(options_of(config).variant.output_bias);
}

TEST(LlamaConfig, ReadsWindowsOfQwen) {
  json config = config_of("qwen2");
  config["sliding_window"] = 8;
  EXPECT_EQ(options_of(config).variant.window, 0) << "without use_sliding_window";
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 3;
  EXPECT_EQ(options_of(config).variant.window, 8);
  EXPECT_EQ(options_of(config).variant.local_layers,
            (std::vector<bool>{false, false, false, true}));
  config["max_window_layers"] = 4;
  EXPECT_EQ(options_of(config).variant.window, 0) << "no layer is local";
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                           "full_attention"};
  EXPECT_EQ(options_of(config).variant.local_layers,
            (std::vector<bool>{true, false, false, false}));
}

TEST(LlamaConfig, ReadsTheLayerTypesOfMistral) {
  using Layers = std::vector<bool>;
  for (const char* model_type : {"mistral", "ministral"}) {
    json config = config_of(model_type);
    config["sliding_window"] = 8;
    EXPECT_EQ(options_of(config).variant.window, 8);
    config["layer_types"] = {"sliding_attention", "full_attention", "attention",
                             "sliding_attention"};
    EXPECT_EQ(options_of(config).variant.local_layers, (Layers{true, false, false, true}));
    config["layer_types"] =
        json::array({"full_attention", "full_attention", "full_attention", "full_attention"});
    EXPECT_EQ(options_of(config).variant.window, 0) << "no layer is local";
    config["sliding_window"] = nullptr;
    EXPECT_EQ(options_of(config).variant.window, 0);
    config["layer_types"] = nullptr;
    EXPECT_EQ(options_of(config).variant.window, 0);
    config["layer_types"] =
        json::array({"sliding_attention", "full_attention", "full_attention", "full_attention"});
    EXPECT_THAT(refusal_of(config), HasSubstr("sliding_window"));
  }
}

TEST(LlamaConfig, RefusesLocalLayersOfQwenWithoutAWindow) {
  json config = config_of("qwen3");
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                           "full_attention"};
  EXPECT_THAT(refusal_of(config), HasSubstr("use_sliding_window"));
  config["use_sliding_window"] = true;
  EXPECT_EQ(options_of(config).variant.local_layers,
            (std::vector<bool>{true, false, false, false}));
}

/// The defaults of transformers' configuration classes.
TEST(LlamaConfig, TakesTheShapeOfItsClassWhereKeysAreLeftOut) {
  const auto bare = [](const char* model_type) {
    return options_of({{"model_type", model_type}, {"num_hidden_layers", 2}});
  };
  EXPECT_EQ(bare("llama").kv_heads, 32);
  EXPECT_EQ(bare("llama").ffn_width, 11'008);
  EXPECT_EQ(bare("mistral").kv_heads, 8);
  EXPECT_EQ(bare("mistral").head_width, 128);
  EXPECT_EQ(bare("qwen2").vocab, 151'936);
  EXPECT_EQ(bare("qwen3").head_width, 128);
  EXPECT_EQ(bare("gemma").head_width, 256);
  EXPECT_EQ(bare("gemma2").kv_heads, 4);
  EXPECT_EQ(bare("gemma3_text").context, 131'072);
  json config = config_of("qwen2");
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(options_of(config).kv_heads, 4) << "as many as queries have";
}

/// Keys that transformers' class does not read, or does not use in the computation.
TEST(LlamaConfig, PassesOverKeysWithoutEffect) {
  struct Key {
    const char* model_type;
    const char* name;
    json value;
  };
  for (const auto& [model_type, name, value] : std::vector<Key>{
           {"llama", "is_causal", true},
           {"llama", "attention_dropout", 0},
           {"llama", "pretraining_tp", 4},
           {"llama", "use_cache", false},
           {"llama", "sliding_window", 4},
           {"llama", "layer_types", nullptr},
           {"gemma",
            "layer_types",
            {"full_attention", "attention", "full_attention", "full_attention"}},
           {"llama", "rope_interleaved", true},
           {"llama", "quantization_config", nullptr},
           {"llama", "per_layer_config", json::object()},
           {"llama", "configuration_files", {"config.json"}},
           {"llama", "partial_rotary_factor", 0.5},
           {"llama", "rope_scaling", {{"type", "dynamic"}, {"factor", 4.0}}},
           {"llama", "rope_scaling", json::object()},
           {"llama", "hidden_act", "swish"},
           {"llama", "key_of_a_later_version", {{"a", 1}}},
           {"mistral", "attention_bias", true},
           {"mistral", "mlp_bias", true},
           {"qwen2", "sliding_window", 3},
           {"qwen2", "attention_bias", false},
           {"gemma", "hidden_activation", "relu"},
           {"gemma", "hidden_act", "gelu"},
           {"gemma2", "hidden_act", "relu"},
           {"gemma2", "hidden_activation", "gelu_new"},
           {"gemma3_text", "attn_logit_softcapping", 50.0},
           {"gemma3_text", "use_bidirectional_attention", false},
           {"gemma3_text", "rope_scaling", {{"type", "linear"}, {"factor", 8.0}}},
       }) {
    json config = config_of(model_type);
    const LlamaVariant before = options_of(config).variant;
    config[name] = value;
    EXPECT_EQ(options_of(config).variant, before) << model_type << ' ' << name << ' ' << value;
  }
}

/// As transformers resolves them (convert_rope_params_to_dict and standardize_rope_params).
TEST(LlamaConfig, ResolvesRotaryKeysThatAreStatedTwice) {
  const auto rotary_of = [](const char* model_type, const json& keys) {
    json config = config_of(model_type);
    config.erase("rope_theta");
    config.update(keys);
    return options_of(config).variant;
  };
  const json parameters = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 700.0}};
  const RotaryOptions linear{.base = 700, .scaling = RotaryScaling::linear, .factor = 4};
  EXPECT_EQ(rotary_of("llama", {{"rope_parameters", parameters}}).rotary, linear);
  EXPECT_EQ(rotary_of("llama", {{"rope_parameters", parameters}, {"rope_theta", 9.0}}).rotary,
            linear)
      << "the object's own counts before the one around it";
  EXPECT_EQ(rotary_of("qwen2", {{"rope_parameters", parameters}, {"rope_scaling", nullptr}}).rotary,
            linear);
  EXPECT_EQ(rotary_of("mistral", {{"rope_parameters", parameters},
                                  {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})
                .rotary,
            (RotaryOptions{.scaling = RotaryScaling::linear, .factor = 2}))
      << "rope_scaling stands in the place of rope_parameters, its rope_theta included";
  EXPECT_EQ(rotary_of("llama", {{"rope_parameters", parameters},
                                {"rope_scaling", {{"rope_type", "default"}}},
                                {"rope_theta", 9.0}})
                .rotary,
            RotaryOptions{.base = 9});
  EXPECT_EQ(rotary_of("llama", {{"rope_scaling",
                                 {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2.0}}}})
                .rotary.scaling,
            RotaryScaling::linear);

  const json yarn = {
      {"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 4},
      {"beta_fast", 0},      {"mscale", 0},   {"mscale_all_dim", 1.0},
      {"truncate", nullptr}};
  const RotaryOptions plain = rotary_of("qwen3", {{"rope_scaling", yarn}}).rotary;
  EXPECT_EQ(plain.original_context, 4);
  EXPECT_EQ(plain.beta_fast, 32) << "0 is as good as nothing";
  EXPECT_NEAR(plain.amplitude, 0.1 * std::log(2.0) + 1, 1e-12);
  EXPECT_FALSE(plain.whole_channels) << "null is false";
  EXPECT_EQ(rotary_of("qwen3", {{"rope_scaling", yarn}, {"original_max_position_embeddings", 8}})
                .rotary.original_context,
            8)
      << "the one around the object counts";
  EXPECT_EQ(rotary_of("llama", {{"rope_scaling", {{"rope_type", "proportional"}}}}).rotary,
            (RotaryOptions{.scaling = RotaryScaling::linear}));
}

TEST(LlamaConfig, ResolvesRotaryKeysOfEachKindOfLayer) {
  const auto variant_of = [](const json& keys) {
    json config = config_of("gemma3_text");
    config.erase("rope_theta");
    config.update(keys);
    return options_of(config).variant;
  };
  const LlamaVariant usual = variant_of(json::object());
  EXPECT_EQ(usual.rotary, RotaryOptions{.base = 1e6});
  EXPECT_EQ(*usual.local_rotary, RotaryOptions{.base = 1e4});
  const json scaling = {{"rope_type", "linear"}, {"factor", 8.0}};
  const LlamaVariant both =
      variant_of({{"rope_scaling", scaling},
                  {"rope_parameters",
                   {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 70.0}}},
                    {"sliding_attention", {{"rope_type", "linear"}, {"factor", 3.0}}}}},
                  {"rope_theta", 9.0},
                  {"rope_local_base_freq", 5.0}});
  EXPECT_EQ(both.rotary,
            (RotaryOptions{.base = 70, .scaling = RotaryScaling::linear, .factor = 8}));
  EXPECT_EQ(*both.local_rotary,
            (RotaryOptions{.base = 5, .scaling = RotaryScaling::linear, .factor = 3}));
  EXPECT_EQ(variant_of({{"rope_scaling", {{"type", "linear"}, {"factor", 8.0}}}}).rotary,
            RotaryOptions{.base = 1e6})
      << "the class's own rope_type counts before the older name of it";
}

TEST(LlamaConfig, TakesTheLastOfAKeyThatIsThereTwice) {
  const std::string text = R"({"model_type": "qwen2", "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "hidden_size": 16, "rms_norm_eps": 0.5, "rms_norm_eps": 1e-3})";
  const LlamaOptions options = parse_llama_config(text, "config.json", {});
  EXPECT_EQ(options.width, 16);
  EXPECT_EQ(options.variant.norm_eps, 1e-3);
}

TEST(LlamaConfig, ReadsRotaryScalingsOfBothForms) {
  json config = config_of("llama");
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8}};
  config["rope_scaling"] = scaling;
  const RotaryOptions old_form = options_of(config).variant.rotary;
  EXPECT_EQ(
      old_form,
      (RotaryOptions{
          .base = 500, .scaling = RotaryScaling::llama3, .factor = 8, .original_context = 8}));
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = scaling;
  config["rope_parameters"]["rope_theta"] = 500;
  EXPECT_EQ(options_of(config).variant.rotary, old_form);

  config["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"rope_theta", 500}};
  const RotaryOptions yarn = options_of(config).variant.rotary;
  EXPECT_EQ(yarn.original_context, 12) << "max_position_embeddings";
  EXPECT_NEAR(yarn.amplitude, 0.1 * std::log(4.0) + 1, 1e-12);

  config["rope_parameters"] = nullptr;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  EXPECT_EQ(options_of(config).variant.rotary.scaling, RotaryScaling::linear);
  EXPECT_EQ(options_of(config).variant.rotary.base, 10'000) << "transformers' own";
}

TEST(LlamaConfig, RefusesWhatThisModelIsNotByKey) {
  const json absent = json(json::value_t::discarded);
  struct Change {
    const char* model_type;
    const char* key;
    json value;
  };
  for (const auto& [model_type, key, value] : std::vector<Change>{
           {"llama", "model_type", "gpt2"},
           {"llama", "model_type", "phi3"},
           {"llama", "model_type", absent},
           {"llama", "hidden_size", nullptr},
           {"llama", "intermediate_size", "20"},
           {"llama", "num_hidden_layers", 0},
           {"llama", "num_attention_heads", 4.5},
           {"llama", "vocab_size", std::int64_t{1} << 40},
           {"llama", "max_position_embeddings", nullptr},
           {"mistral", "num_key_value_heads", 2.5},
           {"qwen3", "head_dim", nullptr},
           {"llama", "hidden_act", "gelu"},
           {"gemma2", "hidden_activation", "gelu"},
           {"gemma", "hidden_act", "relu2"},
           {"llama", "mlp_bias", true},
           {"llama", "attention_bias", 1},
           {"llama", "rms_norm_eps", -1},
           {"llama", "rope_theta", "many"},
           {"llama", "quantization_config", {{"bits", 4}}},
           {"llama", "per_layer_config", {{"0", {{"intermediate_size", 8}}}}},
           {"llama", "configuration_files", {"config.4.0.0.json", "config.json"}},
           {"llama", "is_causal", false},
           {"qwen2", "is_causal", nullptr},
           {"llama", "rms_norm_eps", 1},
           {"llama", "rope_scaling", {{"rope_type", "longrope"}, {"factor", 2}}},
           {"llama", "rope_scaling", {{"type", "dynamic"}}},
           {"llama", "rope_scaling", {{"type", "su"}, {"factor", 2}}},
           {"llama",
            "rope_scaling",
            {{"type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 0.5}}},
           {"llama",
            "rope_scaling",
            {{"rope_type", "llama3"},
             {"factor", 2},
             {"low_freq_factor", 4},
             {"high_freq_factor", 1}}},
           {"llama",
            "rope_scaling",
            {{"rope_type", "yarn"}, {"factor", 2}, {"beta_fast", 1}, {"beta_slow", 2}}},
           {"llama", "rope_scaling", {{"rope_type", "linear"}}},
           {"llama", "rope_scaling", {{"rope_type", "llama3"}, {"factor", 2}}},
           {"llama", "rope_scaling", 2},
           {"llama", "rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}},
           {"gemma3_text", "rope_parameters", {{"rope_type", "default"}}},
           {"gemma2", "hidden_activation", "relu"},
           {"gemma", "use_bidirectional_attention", true},
           {"gemma2", "use_bidirectional_attention", true},
           {"gemma2", "final_logit_softcapping", 50.0},
           {"gemma2", "sliding_window", nullptr},
           {"gemma2", "layer_types", {"full_attention"}},
           {"gemma2", "layer_types", {"chunked_attention", "x", "x", "x"}},
           {"mistral", "layer_types", {"sliding_attention"}},
           {"llama", "layer_types", {"full_attention"}},
           {"llama", "layer_types", {"full_attention", "chunked_attention", "x", "x"}},
           {"gemma",
            "layer_types",
            {"full_attention", "sliding_attention", "full_attention", "full_attention"}},
           {"ministral", "layer_types", {"full_attention", "conv", "conv", "conv"}},
       }) {
    json config = config_of(model_type);
    if (value.is_discarded())
      config.erase(key);
    else
      config[key] = value;
    EXPECT_THAT(refusal_of(config), HasSubstr(key)) << model_type << ' ' << value;
  }
  EXPECT_THAT(message_of([] { parse_llama_config("{", "folder/config.json", {}); }),
              HasSubstr("JSON"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(
      message_of([&] { parse_llama_config("{\"a\":" + deep + "}", "folder/config.json", {}); }),
      HasSubstr("JSON"));
}

TEST(LlamaConfig, KeepsTheKeysThatItCameWithAndStatesTheDtypeOfWhatIsWritten) {
  for (const char* model_type :
       {"llama", "mistral", "ministral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"}) {
    const json config = config_of(model_type);
    LlamaOptions options = options_of(config);
    options.context = 5;  // of a run with shorter samples
    const json written = json::parse(make_llama_config(options));
    json expected = config;
    expected.erase("torch_dtype");
    expected["dtype"] = "float32";
    EXPECT_EQ(written, expected);
    EXPECT_EQ(options_of(written).variant, options.variant) << model_type;
  }
}

TEST(LlamaConfig, OfOptionsThatNoConfigCanStateIsRefused) {
  LlamaOptions options = with_usual_widths(small_llama());
  EXPECT_EQ(json::parse(make_llama_config(options))["model_type"], "llama");
  options.variant.rotary = {.base = 77, .scaling = RotaryScaling::yarn, .factor = 3};
  EXPECT_NO_THROW(make_llama_config(options));
  options.variant.window = 4;
  EXPECT_THAT(message_of([&] { make_llama_config(options); }), HasSubstr("a window"));
  options = options_of(config_of("gemma2"));
  options.variant.logit_soft_cap = 29;
  EXPECT_THAT(message_of([&] { make_llama_config(options); }), HasSubstr("caps"));
}

double loss_of(Llama& model, const batch::MicroBatch& micro) {
  return evaluate(model, micro, context_of(micro)).sum.item<double>();
}

/// Writes a folder of a family, with a model that only its config.json describes.
void save_family(const std::filesystem::path& folder, const std::string& model_type) {
  Llama model(
      parse_llama_config(config_of(model_type).dump(), "config.json", {.compute = Compute::fp64}));
  perturb(model);
  save_llama_folder(folder, model);
}

TEST(LlamaFolder, RoundTripKeepsEveryBitAndTheOptionsThatAreNotShape) {
  for (const char* model_type :
       {"llama", "mistral", "ministral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"}) {
    const TemporaryFolder folder;
    save_family(folder / "a", model_type);
    const auto model =
        load_llama_folder(folder / "a", {.dropout = 0.25, .compute = Compute::fp64, .seed = 9});
    EXPECT_EQ(model->options().dropout, 0.25);
    EXPECT_EQ(model->options().seed, 9U);
    save_llama_folder(folder / "b", *model);
    EXPECT_EQ(read_file(folder / "b/config.json"), read_file(folder / "a/config.json"));
    EXPECT_EQ(read_file(folder / "b/model.safetensors"), read_file(folder / "a/model.safetensors"))
        << model_type;
  }
}

TEST(LlamaFolder, LoadsAShorterContextAndKeepsTheLongerOne) {
  const TemporaryFolder folder;
  save_family(folder / "a", "llama");
  const auto model = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  const auto shorter = load_llama_folder(folder / "a", {.compute = Compute::fp64}, 5);
  EXPECT_EQ(shorter->context(), 5);
  const batch::MicroBatch micro = random_batch(model->options(), 3, 5);
  EXPECT_EQ(loss_of(*shorter, micro), loss_of(*model, micro));
  save_llama_folder(folder / "b", *shorter);
  EXPECT_EQ(read_llama_shape(folder / "b", {}).context, 12);
  EXPECT_THAT(message_of([&] { load_llama_folder(folder / "a", {}, 13); }),
              ::testing::AllOf(HasSubstr("model.context = 13"), HasSubstr("12 positions")));
}

void change_weights(const std::filesystem::path& folder,
                    const std::function<void(NamedParameters&)>& change) {
  NamedParameters tensors = read_safetensors(folder / "model.safetensors").tensors;
  change(tensors);
  write_safetensors(folder / "model.safetensors", tensors);
}

TEST(LlamaFolder, LoadsNamesWithoutPrefixATiedHeadOtherDtypesAndOldFrequencies) {
  const TemporaryFolder folder;
  save_family(folder / "a", "gemma2");
  const auto model = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  change_weights(folder / "a", [](NamedParameters& tensors) {
    at::Tensor head;
    for (NamedParameter& parameter : tensors) {
      parameter.name = parameter.name.substr(std::string("model.").size());
      if (parameter.name == "embed_tokens.weight") head = parameter.tensor.clone();
    }
    tensors.push_back({"lm_head.weight", head});
    tensors.push_back({"layers.0.self_attn.rotary_emb.inv_freq", at::ones(3)});
  });
  const batch::MicroBatch micro = random_batch(model->options(), 2, 12);
  EXPECT_EQ(loss_of(*load_llama_folder(folder / "a", {.compute = Compute::fp64}), micro),
            loss_of(*model, micro));
  change_weights(folder / "a", [](NamedParameters& tensors) {
    for (NamedParameter& parameter : tensors) parameter.tensor = parameter.tensor.to(at::kBFloat16);
  });
  const auto rounded = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(rounded->parameters()[i].tensor,
                          model->parameters()[i].tensor.to(at::kBFloat16).to(at::kDouble)));
}

/// The two share memory: safetensors.torch.save_model stores one of them, and names the other in
/// the metadata.
TEST(LlamaFolder, ATiedHeadMayBeInThePlaceOfTheEmbedding) {
  const TemporaryFolder folder;
  save_family(folder / "a", "gemma2");
  const auto model = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  NamedParameters tensors = read_safetensors(folder / "a/model.safetensors").tensors;
  for (NamedParameter& tensor : tensors)
    if (tensor.name == "model.embed_tokens.weight") tensor.name = "lm_head.weight";
  write_safetensors(folder / "a/model.safetensors", tensors,
                    {{"model.embed_tokens.weight", "lm_head.weight"}});
  const auto loaded = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  const batch::MicroBatch micro = random_batch(model->options(), 2, 12);
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(*model, micro));
  EXPECT_TRUE(tensors_left_out(folder / "a", *loaded).empty());
}

/// transformers warns, and does not tie the two.
TEST(LlamaFolder, AHeadWithOtherValuesIsNotTied) {
  const TemporaryFolder folder;
  save_family(folder / "a", "gemma2");
  const auto tied = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  change_weights(folder / "a", [](NamedParameters& tensors) {
    tensors.push_back({"lm_head.weight", at::eye(31, at::kDouble).narrow(1, 0, 16).contiguous()});
  });
  EXPECT_FALSE(read_llama_shape(folder / "a", {}).variant.tied_head);
  const auto loaded = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  const batch::MicroBatch micro = random_batch(tied->options(), 2, 12);
  EXPECT_NE(loss_of(*loaded, micro), loss_of(*tied, micro));
  EXPECT_TRUE(has_untied_head(folder / "a", *loaded));
  save_llama_folder(folder / "b", *loaded);
  EXPECT_EQ(json::parse(read_file(folder / "b/config.json"))["tie_word_embeddings"], false);
  EXPECT_EQ(loss_of(*load_llama_folder(folder / "b", {.compute = Compute::fp64}), micro),
            loss_of(*loaded, micro));
  EXPECT_FALSE(has_untied_head(folder / "b", *loaded)) << "its config.json says it";
}

TEST(LlamaFolder, LeavesOutTensorsOfOthersAndNamesThem) {
  const TemporaryFolder folder;
  save_family(folder / "a", "qwen3");
  const auto model = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  change_weights(folder / "a", [](NamedParameters& tensors) {
    tensors.push_back({"model.layers.0.self_attn.q_proj.bias", at::ones(24)});
    tensors.push_back({"model.layers.4.input_layernorm.weight", at::ones(16)});
    tensors.push_back({"v_head.summary.weight", at::ones({1, 16})});
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", at::ones(3)});
  });
  const auto loaded = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  const batch::MicroBatch micro = random_batch(model->options(), 2, 12);
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(*model, micro));
  EXPECT_THAT(tensors_left_out(folder / "a", *loaded),
              ::testing::UnorderedElementsAre("model.layers.0.self_attn.q_proj.bias",
                                              "model.layers.4.input_layernorm.weight",
                                              "v_head.summary.weight"));
}

/// transformers_weights of config.json, instead of model.safetensors.
TEST(LlamaFolder, TakesTheFileThatItsConfigNames) {
  const TemporaryFolder folder;
  save_family(folder / "a", "llama");
  const auto model = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  std::filesystem::rename(folder / "a/model.safetensors", folder / "a/other.safetensors");
  write_safetensors(folder / "a/model.safetensors", {{"x", at::ones(2)}});
  const auto with_file = [&](const json& value) {
    json config = json::parse(read_file(folder / "a/config.json"));
    config["transformers_weights"] = value;
    write_file_atomically(folder / "a/config.json", config.dump());
  };
  with_file("other.safetensors");
  const auto loaded = load_llama_folder(folder / "a", {.compute = Compute::fp64});
  const batch::MicroBatch micro = random_batch(model->options(), 2, 12);
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(*model, micro));
  for (const json& value :
       {json("../other.safetensors"), json("other.bin"), json(3), json("a/b.safetensors")}) {
    with_file(value);
    EXPECT_THAT(message_of([&] { load_llama_folder(folder / "a", {}); }),
                HasSubstr("transformers_weights"))
        << value;
  }
  with_file("absent.safetensors");
  EXPECT_THAT(message_of([&] { load_llama_folder(folder / "a", {}); }),
              HasSubstr("absent.safetensors"));
}

TEST(LlamaFolder, RefusesTensorsThatDoNotFitByName) {
  const auto message = [](const std::string& model_type,
                          const std::function<void(NamedParameters&)>& change) {
    const TemporaryFolder folder;
    save_family(folder / "a", model_type);
    change_weights(folder / "a", change);
    const std::string text = message_of([&] { load_llama_folder(folder / "a", {}); });
    EXPECT_THAT(text, HasSubstr((folder / "a/model.safetensors").string()));
    return text;
  };
  EXPECT_THAT(message("llama",
                      [](auto& t) {
                        std::erase_if(t, [](const auto& p) { return p.name == "lm_head.weight"; });
                      }),
              ::testing::AllOf(HasSubstr("lm_head.weight"), HasSubstr("no such tensor")));
  EXPECT_THAT(message("llama",
                      [](auto& t) {
                        for (auto& p : t)
                          if (p.name == "model.layers.2.mlp.up_proj.weight")
                            p.tensor = p.tensor.t().contiguous();
                      }),
              ::testing::AllOf(HasSubstr("up_proj"), HasSubstr("[20, 16]")));
}

TEST(LlamaFolder, DoesNotOverwriteAModelAndNamesMissingFiles) {
  const TemporaryFolder folder;
  save_family(folder / "a", "llama");
  EXPECT_THAT(message_of([&] { save_family(folder / "a", "llama"); }), HasSubstr("config.json"));
  EXPECT_THAT(message_of([&] { load_llama_folder(folder / "none", {}); }),
              HasSubstr("none/config.json"));
  std::filesystem::remove(folder / "a/model.safetensors");
  EXPECT_THAT(message_of([&] { load_llama_folder(folder / "a", {}); }),
              HasSubstr("a/model.safetensors"));
}

}  // namespace
}  // namespace accrue::models
