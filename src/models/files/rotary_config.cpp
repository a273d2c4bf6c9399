#include "models/files/rotary_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace accrue::models {
namespace {

using nlohmann::json;

RotaryScaling scaling_of(const ConfigFile& scaling) {
  const char* key = scaling.is_null_or_absent("rope_type") ? "type" : "rope_type";
  if (scaling.is_null_or_absent(key)) return RotaryScaling::none;
  const std::string word = scaling.text(key);
  for (const RotaryScaling known :
       {RotaryScaling::none, RotaryScaling::linear, RotaryScaling::llama3, RotaryScaling::yarn})
    if (word == rotary_scaling_words.of(known)) return known;
  throw scaling.wrong(key, "default, linear, llama3 or yarn", word);
}

/// What yarn multiplies cosines and sines with where config.json does not say it.
double usual_amplitude(const ConfigFile& scaling, double factor) {
  const auto of = [&](double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
  };
  if (scaling.is_null_or_absent("mscale") || scaling.is_null_or_absent("mscale_all_dim"))
    return of(1);
  return of(scaling.positive("mscale")) / of(scaling.positive("mscale_all_dim"));
}

void read_yarn(const ConfigFile& scaling, std::int64_t positions, RotaryOptions& rotary) {
  rotary.factor =
      scaling.positive_or("factor", static_cast<double>(positions) / rotary.original_context);
  rotary.amplitude =
      scaling.positive_or("attention_factor", usual_amplitude(scaling, rotary.factor));
  rotary.beta_fast = scaling.positive_or("beta_fast", rotary.beta_fast);
  rotary.beta_slow = scaling.positive_or("beta_slow", rotary.beta_slow);
  rotary.whole_channels = scaling.flag_or("truncate", true);
}

/// `rotary` changed by what an object of config.json states.
RotaryOptions scaled(RotaryOptions rotary, const ConfigFile& scaling, std::int64_t positions) {
  rotary.base = scaling.positive_or("rope_theta", rotary.base);
  if (!scaling.is_null_or_absent("partial_rotary_factor"))
    scaling.require("partial_rotary_factor", 1.0);
  rotary.scaling = scaling_of(scaling);
  if (rotary.scaling == RotaryScaling::none) return rotary;
  if (rotary.scaling == RotaryScaling::linear) {
    rotary.factor = scaling.positive("factor");
    return rotary;
  }
  rotary.original_context =
      static_cast<double>(scaling.count_or("original_max_position_embeddings", positions));
  if (rotary.scaling == RotaryScaling::yarn) {
    read_yarn(scaling, positions, rotary);
    return rotary;
  }
  rotary.factor = scaling.positive("factor");
  rotary.low_frequency = scaling.positive("low_freq_factor");
  rotary.high_frequency = scaling.positive("high_freq_factor");
  return rotary;
}

}  // namespace

void read_rotary(const ConfigFile& config, bool by_kind_of_layer, std::int64_t positions,
                 LlamaVariant& variant) {
  if (!config.is_null_or_absent("partial_rotary_factor"))
    config.require("partial_rotary_factor", 1.0);
  RotaryOptions global{.base = config.positive_or("rope_theta", by_kind_of_layer ? 1e6 : 1e4)};
  RotaryOptions local{.base = config.positive_or("rope_local_base_freq", 1e4)};
  const auto stated = config.object("rope_parameters");
  if (stated && by_kind_of_layer) {
    stated->require_none("rope_type");  // they are stated for each kind of layer
    if (const auto of_global = stated->object("full_attention"))
      global = scaled(global, *of_global, positions);
    if (const auto of_local = stated->object("sliding_attention"))
      local = scaled(local, *of_local, positions);
  } else if (stated) {
    stated->require_none("full_attention");
    stated->require_none("sliding_attention");
    global = scaled(global, *stated, positions);
  }
  if (const auto scaling = config.object("rope_scaling"))
    global = scaled(global, *scaling, positions);
  variant.rotary = global;
  if (by_kind_of_layer) variant.local_rotary = local;
}

void write_rotary(const RotaryOptions& rotary, json& config) {
  config["rope_theta"] = rotary.base;
  if (rotary.scaling == RotaryScaling::none) return;
  json scaling = {{"rope_type", rotary_scaling_words.of(rotary.scaling)},
                  {"factor", rotary.factor}};
  if (rotary.scaling != RotaryScaling::linear)
    scaling["original_max_position_embeddings"] = std::llround(rotary.original_context);
  if (rotary.scaling == RotaryScaling::llama3) {
    scaling["low_freq_factor"] = rotary.low_frequency;
    scaling["high_freq_factor"] = rotary.high_frequency;
  } else if (rotary.scaling == RotaryScaling::yarn) {
    scaling["attention_factor"] = rotary.amplitude;
    scaling["beta_fast"] = rotary.beta_fast;
    scaling["beta_slow"] = rotary.beta_slow;
    scaling["truncate"] = rotary.whole_channels;
  }
  config["rope_scaling"] = scaling;
}

}  // namespace accrue::models
