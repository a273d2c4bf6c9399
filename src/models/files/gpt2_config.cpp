#include "models/files/gpt2_config.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

using nlohmann::json;

constexpr std::int64_t gpt2_vocab = 50'257;
constexpr std::int64_t end_of_text = 50'256;  // GPT-2's tokenizer has it

class ConfigFile {
 public:
  ConfigFile(const std::string& text, const std::string& file) : file_(file) {
    root_ = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!root_.is_object())
      throw usage_error("load " + file_, "a JSON object", "something else or broken JSON",
                        "another folder");
  }

  /// How many there are of something: so few that products of two such counts are numbers, too.
  std::int64_t count(const char* key) const {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    const auto found = root_.find(key);
    if (found == root_.end()) throw wrong(key, "a number", "no such key");
    const bool fits = found->is_number_integer() && *found >= 1 && *found <= most;
    if (!fits) throw wrong(key, "a whole number from 1 to " + std::to_string(most), found->dump());
    return found->get<std::int64_t>();
  }

  /// Throws unless `key` is absent or is `expected`.
  void require(const char* key, const json& expected) const {
    const auto found = root_.find(key);
    if (found != root_.end() && *found != expected)
      throw wrong(key, expected.dump(), found->dump());
  }

  void require_one_of(const char* key, const std::vector<std::string>& expected) const {
    const auto found = root_.find(key);
    if (found == root_.end()) throw wrong(key, expected.front(), "no such key");
    const std::string value = found->is_string() ? found->get<std::string>() : found->dump();
    if (std::find(expected.begin(), expected.end(), value) == expected.end())
      throw wrong(key, expected.front(), value);
  }

  bool is_null_or_absent(const char* key) const {
    const auto found = root_.find(key);
    return found == root_.end() || found->is_null();
  }

 private:
  Error wrong(const char* key, const std::string& expected, const std::string& received) const {
    return usage_error("load " + file_, std::string(key) + " = " + expected, received.substr(0, 80),
                       "a model with the architecture of GPT-2");
  }

  const std::string& file_;
  json root_;
};

}  // namespace

Gpt2Options parse_gpt2_config(const std::string& text, const std::string& file,
                              Gpt2Options options) {
  const ConfigFile config(text, file);
  config.require_one_of("model_type", {"gpt2"});
  options.layers = config.count("n_layer");
  options.heads = config.count("n_head");
  options.width = config.count("n_embd");
  options.context = config.count("n_positions");
  options.vocab = config.count("vocab_size");
  // Both names stand for the tanh form of GELU.
  config.require_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.require("layer_norm_epsilon", 1e-5);
  config.require("scale_attn_weights", true);
  config.require("scale_attn_by_inverse_layer_idx", false);
  config.require("add_cross_attention", false);
  config.require("tie_word_embeddings", true);
  if (!config.is_null_or_absent("n_inner")) config.require("n_inner", 4 * options.width);
  return options;
}

std::string make_gpt2_config(const Gpt2Options& options) {
  const json token = options.vocab >= gpt2_vocab ? json(end_of_text)
                                                 : json(nullptr);  // with fewer words there is none
  const nlohmann::ordered_json config = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", options.vocab},
      {"n_positions", options.context},
      {"n_embd", options.width},
      {"n_layer", options.layers},
      {"n_head", options.heads},
      {"n_inner", nullptr},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", 1e-5},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", true},
      {"embd_pdrop", options.dropout},
      {"resid_pdrop", options.dropout},
      {"attn_pdrop", options.dropout},
      {"initializer_range", 0.02},
      {"bos_token_id", token},
      {"eos_token_id", token},
      {"dtype", options.compute == Compute::fp64 ? "float64" : "float32"},
  };
  return config.dump(2) + '\n';
}

}  // namespace accrue::models
