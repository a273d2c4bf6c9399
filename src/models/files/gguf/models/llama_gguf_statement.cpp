#include "models/files/gguf/models/llama_gguf_statement.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/files/config/llama_config.h"
#include "models/files/gguf/container/gguf_dtypes.h"
#include "models/files/gguf/models/llama_gguf_rotary.h"

namespace accrue::models {
namespace {

const GgufArchitecture& architecture_of(const std::string& model_type,
                                        const std::string& operation) {
  const bool is_mistral = model_type == "mistral" || model_type == "ministral";
  const std::string_view same = is_mistral ? "llama" : std::string_view(model_type);
  for (const GgufArchitecture& known : gguf_architectures)
    if (known.model_type == same) return known;
  throw usage_error(operation, "llama, mistral, ministral, qwen2, qwen3, gemma2 or gemma3_text",
                    model_type, "--format hf");
}

nlohmann::json config_json_of(const LlamaOptions& options) {
  return nlohmann::json::parse(make_llama_config(options));
}

class Statement {
 public:
  Statement(const LlamaOptions& options, GgufDtype dtype, const std::string& operation)
      : operation_(operation),
        config_(config_json_of(options)),
        options_(parse_llama_config(config_.dump(), "config.json", options)),
        result_{.architecture = architecture_of(config_["model_type"], operation),
                .keys = {},
                .rotary_factors = {}} {
    check_variant();
    state_shape(dtype);
    state_rotary();
    if (result_.architecture.is_gemma) state_gemma();
  }

  GgufStatement take() { return std::move(result_); }

 private:
  std::string key(std::string_view name) const {
    return std::string(result_.architecture.name) + '.' + std::string(name);
  }
  void count(std::string_view name, std::int64_t value) {
    result_.keys.add(key(name), static_cast<std::uint32_t>(value));
  }
  void number(std::string_view name, double value) {
    result_.keys.add(key(name), static_cast<float>(value));
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const {
    throw usage_error(operation_, expected + " for a " + std::string(result_.architecture.name),
                      received, "--format hf");
  }

  void check_variant() const {
    const LlamaVariant& variant = options_.variant;
    const bool may_have_biases = result_.architecture.rotates_neighbours;
    const bool is_qwen2 = result_.architecture.name == "qwen2";
    if (variant.qkv_bias && !may_have_biases && !is_qwen2)
      refuse("no biases", "biases of attention");
    const auto usual = result_.architecture.is_gemma ? kernels::GateActivation::gelu_tanh
                                                     : kernels::GateActivation::silu;
    if (variant.activation != usual) refuse("its usual activation", "another one");
    if (!result_.architecture.is_gemma) return;
    const std::int64_t scalar = gguf_query_scalar(
        result_.architecture, options_.layers, options_.width, options_.heads, options_.head_width);
    if (variant.query_scalar != static_cast<double>(scalar))
      refuse("query_pre_attn_scalar = " + std::to_string(scalar), c10::str(variant.query_scalar));
    if (result_.architecture.name == "gemma2" &&
        (variant.attention_soft_cap == 0 || variant.logit_soft_cap == 0))
      refuse("both soft caps", "a model without one");
  }

  /// Positions within which every query sees all keys before it, if there are no windows.
  std::int64_t positions() const {
    const std::int64_t window = options_.variant.window;
    return result_.architecture.is_gemma || window == 0 ? options_.context
                                                        : std::min(options_.context, window);
  }

  void state_shape(GgufDtype dtype) {
    add_general_keys(result_.architecture.name, dtype, result_.keys);
    count("vocab_size", options_.vocab);
    count("context_length", positions());
    count("embedding_length", options_.width);
    count("block_count", options_.layers);
    count("feed_forward_length", options_.ffn_width);
    count("attention.head_count", options_.heads);
    count("attention.head_count_kv", options_.kv_heads);
    count("attention.key_length", options_.head_width);
    count("attention.value_length", options_.head_width);
    number("attention.layer_norm_rms_epsilon", options_.variant.norm_eps);
    count("rope.dimension_count", options_.head_width);
  }

  void state_rotary() {
    const RotaryOptions& rotary = options_.variant.rotary;
    number("rope.freq_base", rotary.base);
    switch (rotary.scaling) {
      case RotaryScaling::none:
        return;
      case RotaryScaling::linear:
        result_.keys.add(key("rope.scaling.type"), std::string("linear"));
        return number("rope.scaling.factor", rotary.factor);
      case RotaryScaling::yarn:
        return state_yarn(rotary);
      case RotaryScaling::llama3:
        return state_factors(rotary);
    }
  }

  void state_yarn(const RotaryOptions& rotary) {
    const double usual_amplitude = rotary.factor <= 1 ? 1 : 0.1 * std::log(rotary.factor) + 1;
    if (!rotary.whole_channels || std::abs(rotary.amplitude - usual_amplitude) > 1e-6)
      refuse("yarn with its usual attention_factor and truncate", "another one");
    result_.keys.add(key("rope.scaling.type"), std::string("yarn"));
    number("rope.scaling.factor", rotary.factor);
    count("rope.scaling.original_context_length", std::llround(rotary.original_context));
    number("rope.scaling.yarn_beta_fast", rotary.beta_fast);
    number("rope.scaling.yarn_beta_slow", rotary.beta_slow);
  }

  void state_factors(const RotaryOptions& rotary) {
    if (!result_.architecture.rotates_neighbours)
      refuse("frequencies that are not scaled as Llama 3's", "rope_type llama3");
    count("rope.scaling.original_context_length", std::llround(rotary.original_context));
    const std::vector<double> factors = llama3_factors(rotary, options_.head_width);
    result_.rotary_factors.assign(factors.begin(), factors.end());
  }

  void state_gemma() {
    const LlamaVariant& variant = options_.variant;
    if (variant.attention_soft_cap > 0)
      number("attn_logit_softcapping", variant.attention_soft_cap);
    if (variant.logit_soft_cap > 0) number("final_logit_softcapping", variant.logit_soft_cap);
    if (variant.local_rotary) {
      if (variant.local_rotary->scaling != RotaryScaling::none)
        refuse("local layers whose frequencies are not scaled", "others");
      number("rope.freq_base_swa", variant.local_rotary->base);
    }
    state_windows();
  }

  bool has_period(std::int64_t period) const {
    for (std::int64_t i = 0; i < options_.layers; ++i)
      if (options_.variant.is_local(i) != ((i + 1) % period != 0)) return false;
    return true;
  }

  void state_windows() {
    count("attention.sliding_window", std::max<std::int64_t>(options_.variant.window, 1));
    const std::int64_t usual = result_.architecture.window_period;
    if (options_.variant.window > 0 && has_period(usual)) return;
    for (std::int64_t period = 1; period <= options_.layers + 1; ++period)
      if (has_period(period)) return count("attention.sliding_window_pattern", period);
    refuse("local layers with a global one behind each so many of them", "another order");
  }

  const std::string& operation_;
  nlohmann::json config_;
  LlamaOptions options_;
  GgufStatement result_;
};

}  // namespace

const GgufArchitecture& gguf_architecture_of(const LlamaOptions& options,
                                             const std::string& operation) {
  return architecture_of(config_json_of(options)["model_type"], operation);
}

GgufStatement state_in_gguf(const LlamaOptions& options, GgufDtype dtype,
                            const std::string& operation) {
  return Statement(options, dtype, operation).take();
}

}  // namespace accrue::models
