#include "models/files/gguf/models/llama_gguf_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/files/gguf/models/gguf_names.h"
#include "models/files/gguf/models/llama_gguf_architecture.h"
#include "models/files/gguf/models/llama_gguf_rotary.h"

namespace accrue::models {
namespace {

using nlohmann::json;

const GgufArchitecture& architecture_of(const GgufFile& file) {
  constexpr std::string_view key = "general.architecture";
  const std::string& name = file.text(key);
  for (const GgufArchitecture& known : gguf_architectures)
    if (known.name == name) return known;
  throw file.wrong_key(key, "gpt2, llama, qwen2, qwen3, gemma2 or gemma3", quoted_gguf_text(name));
}

/// Converts the keys of a file to a config.json.
class ConfigOfKeys {
 public:
  explicit ConfigOfKeys(const GgufFile& file) : file_(file), of_(architecture_of(file)) {}

  json read() {
    read_shape();
    read_tokens();
    read_rotary();
    if (of_.is_gemma) read_gemma();
    return std::move(config_);
  }

 private:
  std::string key(std::string_view name) const {
    return std::string(of_.name) + '.' + std::string(name);
  }

  void expect_none(std::string_view name, std::int64_t usual) const {
    const double stated = file_.number_or(key(name), static_cast<double>(usual));
    if (stated != static_cast<double>(usual))
      throw file_.wrong_key(key(name), std::to_string(usual) + ", or no such key",
                            json(stated).dump());
  }

  void read_shape() {
    const std::int64_t heads = file_.whole(key("attention.head_count"));
    const std::int64_t width = file_.whole(key("embedding_length"));
    const std::int64_t usual_head = heads > 0 ? width / heads : 0;
    const std::int64_t head = file_.whole_or(key("attention.key_length"), usual_head);
    expect_none("expert_count", 0);
    for (const char* same : {"attention.value_length", "rope.dimension_count"})
      if (file_.whole_or(key(same), head) != head)
        throw file_.wrong_key(key(same), std::to_string(head) + ", the width of a head",
                              std::to_string(file_.whole(key(same))));
    config_ = {{"architectures", {of_.class_name}},
               {"model_type", of_.model_type},
               {"hidden_size", width},
               {"num_hidden_layers", file_.whole(key("block_count"))},
               {"num_attention_heads", heads},
               {"num_key_value_heads", file_.whole_or(key("attention.head_count_kv"), heads)},
               {"head_dim", head},
               {"intermediate_size", file_.whole(key("feed_forward_length"))},
               {"max_position_embeddings", file_.whole(key("context_length"))},
               {"rms_norm_eps", file_.number(key("attention.layer_norm_rms_epsilon"))},
               {"tie_word_embeddings", file_.find("output.weight") == nullptr},
               {"attention_bias", of_.rotates_neighbours && has_biases()},
               {"attention_dropout", 0.0}};
    if (!of_.is_gemma) config_["hidden_act"] = "silu";
    if (of_.rotates_neighbours) config_["mlp_bias"] = false;
    if (of_.model_type == "qwen2" || of_.model_type == "qwen3")
      config_["use_sliding_window"] = false;
  }

  bool has_biases() const { return file_.find("blk.0.attn_q.bias") != nullptr; }

  /// The number of tokens is that of the embedding's rows: the list of tokens may be shorter.
  void read_tokens() {
    const GgufTensor* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2)
      throw usage_error("read " + file_.name(), "a tensor \"token_embd.weight\" of two dimensions",
                        embedding == nullptr ? "none of that name" : "another one",
                        "the GGUF file of a language model");
    config_["vocab_size"] = embedding->shape[0];
    for (const char* token : {"bos", "eos"}) {
      const std::string stated = std::string("tokenizer.ggml.") + token + "_token_id";
      json& id = config_[std::string(token) + "_token_id"];
      if (file_.has(stated)) id = file_.whole(stated);
    }
    config_["pad_token_id"] = nullptr;
  }

  void read_rotary() {
    const double base = file_.number_or(key("rope.freq_base"), 10'000);
    config_["rope_theta"] = base;
    expect_none("rope.scaling.attn_factor", 1);
    expect_none("rope.scaling.yarn_log_multiplier", 0);
    const std::string type_key = key("rope.scaling.type");
    const std::string type = file_.has(type_key) ? file_.text(type_key) : "none";
    if (type == "linear") {
      config_["rope_scaling"] = {{"rope_type", type},
                                 {"factor", file_.number(key("rope.scaling.factor"))}};
    } else if (type == "yarn") {
      config_["rope_scaling"] = yarn();
    } else if (type != "none") {
      throw file_.wrong_key(type_key, "none, linear or yarn", quoted_gguf_text(type));
    }
    if (const GgufTensor* factors = file_.find(gguf_rotary_factors)) read_factors(*factors, base);
  }

  json yarn() const {
    json scaling = {{"rope_type", "yarn"},
                    {"factor", file_.number(key("rope.scaling.factor"))},
                    {"original_max_position_embeddings",
                     file_.whole(key("rope.scaling.original_context_length"))}};
    for (const char* beta : {"beta_fast", "beta_slow"}) {
      const std::string stated = key(std::string("rope.scaling.yarn_") + beta);
      if (file_.has(stated)) scaling[beta] = file_.number(stated);
    }
    return scaling;
  }

  void read_factors(const GgufTensor& tensor, double base) {
    const std::int64_t head = config_["head_dim"];
    const std::string where = "read " + file_.name() + ", tensor \"" + tensor.name + '"';
    const std::string fitting = "a model of Llama 3, whose frequencies are scaled so";
    if (tensor.type != GgufType::f32 || head % 2 != 0 || tensor.elements != head / 2)
      throw usage_error(where, "F32 numbers for half of a head's channels",
                        std::string(traits_of(tensor.type).name) + " and " +
                            std::to_string(tensor.elements) + " of them",
                        fitting);
    std::vector<float> stored(static_cast<std::size_t>(tensor.elements));
    file_.read_bytes(tensor, 0, tensor.bytes, stored.data());
    const std::vector<double> factors(stored.begin(), stored.end());
    if (std::all_of(factors.begin(), factors.end(), [](double x) { return x == 1; })) return;
    const auto scaling = llama3_of_factors(
        factors, base, file_.whole_or(key("rope.scaling.original_context_length"), 0));
    if (!scaling)
      throw usage_error(where, "factors that Llama 3's scaling gives", "others", fitting);
    config_["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", scaling->factor},
        {"low_freq_factor", scaling->low_frequency},
        {"high_freq_factor", scaling->high_frequency},
        {"original_max_position_embeddings", std::llround(scaling->original_context)}};
  }

  void read_gemma() {
    const std::int64_t layers = config_["num_hidden_layers"], head = config_["head_dim"];
    config_["hidden_activation"] = "gelu_pytorch_tanh";
    config_["query_pre_attn_scalar"] = gguf_query_scalar(of_, layers, config_["hidden_size"],
                                                         config_["num_attention_heads"], head);
    const bool is_second = of_.name == "gemma2";
    const auto cap = [&](const char* hub, const char* own, double usual) {
      const double value = file_.number_or(key(own), usual);
      config_[hub] = value > 0 ? json(value) : json();
    };
    if (is_second) cap("attn_logit_softcapping", "attn_logit_softcapping", 50);
    cap("final_logit_softcapping", "final_logit_softcapping", is_second ? 30 : 0);
    if (!is_second)
      config_["rope_local_base_freq"] = file_.number_or(key("rope.freq_base_swa"), 10'000);
    read_windows(is_second);
  }

  void read_windows(bool is_second) {
    const std::int64_t layers = config_["num_hidden_layers"];
    if (layers < 1 || layers > std::ssize(file_.tensors()))
      throw file_.wrong_key(key("block_count"), "as many layers as there are tensors for",
                            std::to_string(layers));
    const std::int64_t window =
        file_.whole_or(key("attention.sliding_window"), is_second ? 4096 : 0);
    const std::int64_t period =
        file_.whole_or(key("attention.sliding_window_pattern"), of_.window_period);
    config_["sliding_window"] = window > 0 ? window : 4096;
    json types = json::array();
    for (std::int64_t i = 0; i < layers; ++i)
      types.push_back(window > 0 && (period == 0 || (i + 1) % period != 0) ? "sliding_attention"
                                                                           : "full_attention");
    config_["layer_types"] = types;
  }

  const GgufFile& file_;
  const GgufArchitecture& of_;
  json config_;
};

}  // namespace

std::string config_of_gguf(const GgufFile& file) { return ConfigOfKeys(file).read().dump(2); }

}  // namespace accrue::models
