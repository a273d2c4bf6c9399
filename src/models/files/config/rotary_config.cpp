#include "models/files/config/rotary_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace accrue::models {
namespace {

using nlohmann::json;

/// The objects of a config.json for the rotary positions of one kind of layers. A key is read from
/// the first that has it.
class RotaryKeys {
 public:
  explicit RotaryKeys(std::vector<ConfigFile> objects) : objects_(std::move(objects)) {}

  /// The object from which `key` is read; the last one if none has it.
  const ConfigFile& with(const char* key) const {
    for (const ConfigFile& object : objects_)
      if (object.has(key)) return object;
    return objects_.back();
  }

  bool is_null_or_absent(const char* key) const { return with(key).is_null_or_absent(key); }
  double positive(const char* key) const { return with(key).positive(key); }
  double positive_or(const char* key, double usual) const {
    return with(key).positive_or(key, usual);
  }
  std::optional<double> positive_if_any(const char* key) const {
    return with(key).positive_if_any(key);
  }

 private:
  std::vector<ConfigFile> objects_;
};

/// Related values of the config.json.
struct RotaryContext {
  double positions;  ///< max_position_embeddings
  /// The config.json, whose own "original_max_position_embeddings" takes precedence over that of
  /// the objects; null: it does not.
  const ConfigFile* around = nullptr;
  bool is_partial = false;     ///< its own "partial_rotary_factor" is another than 1
  bool whole_channels = true;  ///< "truncate"
};

/// Whether the ramp of yarn begins and ends at whole channels. transformers treats null as false.
bool has_whole_channels(const ConfigFile& object) {
  return !object.has("truncate") ||
         (!object.is_null_or_absent("truncate") && object.flag_or("truncate", true));
}

bool is_another_than_one(const ConfigFile& object, const char* key) {
  return !object.is_null_or_absent(key) && object.positive(key) != 1;
}

/// Throws if only some of a head's channels are rotated.
void check_is_whole(const RotaryKeys& keys, const RotaryContext& context) {
  constexpr const char* key = "partial_rotary_factor";
  const ConfigFile& object = keys.with(key);
  if (object.has(key) ? is_another_than_one(object, key) : context.is_partial)
    throw object.wrong(key, "1, with a rope_type that is not default", "another one");
}

std::string rotary_type(const RotaryKeys& keys) {
  const char* key = keys.is_null_or_absent("rope_type") ? "type" : "rope_type";
  return keys.is_null_or_absent(key) ? "default" : keys.with(key).text(key);
}

/// yarn's factor of cosines and sines if config.json does not state it.
double usual_amplitude(const RotaryKeys& keys, double factor) {
  const auto of = [&](double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
  };
  const auto scale = keys.positive_if_any("mscale"),
             scale_of_all = keys.positive_if_any("mscale_all_dim");
  return scale && scale_of_all ? of(*scale) / of(*scale_of_all) : of(1);
}

RotaryOptions with_yarn(RotaryOptions rotary, const RotaryKeys& keys,
                        const RotaryContext& context) {
  rotary.scaling = RotaryScaling::yarn;
  rotary.factor = keys.positive_or("factor", context.positions / rotary.original_context);
  rotary.amplitude = keys.positive_or("attention_factor", usual_amplitude(keys, rotary.factor));
  rotary.beta_fast = keys.positive_if_any("beta_fast").value_or(rotary.beta_fast);
  rotary.beta_slow = keys.positive_if_any("beta_slow").value_or(rotary.beta_slow);
  if (rotary.beta_fast < rotary.beta_slow)
    throw keys.with("beta_fast").wrong("beta_fast", "at least beta_slow", "less");
  rotary.whole_channels = context.whole_channels;
  return rotary;
}

RotaryOptions with_llama3(RotaryOptions rotary, const RotaryKeys& keys) {
  rotary.scaling = RotaryScaling::llama3;
  rotary.factor = keys.positive("factor");
  rotary.low_frequency = keys.positive("low_freq_factor");
  rotary.high_frequency = keys.positive("high_freq_factor");
  if (rotary.high_frequency <= rotary.low_frequency)
    throw keys.with("high_freq_factor")
        .wrong("high_freq_factor", "more than low_freq_factor", "no more");
  return rotary;
}

/// `rotary` with the values in `keys`.
RotaryOptions scaled(RotaryOptions rotary, const RotaryKeys& keys, const RotaryContext& context) {
  rotary.base = keys.positive_or("rope_theta", rotary.base);
  const std::string type = rotary_type(keys);
  if (type == "default") return rotary;  // transformers reads none of the other keys then
  check_is_whole(keys, context);
  if (type == "dynamic") {
    // Its frequencies are the plain ones up to max_position_embeddings, the longest context.
    keys.positive("factor");
    return rotary;
  }
  if (type == "linear" || type == "proportional") {
    rotary.scaling = RotaryScaling::linear;
    rotary.factor = type == "linear" ? keys.positive("factor") : keys.positive_or("factor", 1);
    return rotary;
  }
  if (type != "yarn" && type != "llama3") {
    const char* key = keys.is_null_or_absent("rope_type") ? "type" : "rope_type";
    throw keys.with(key).wrong(key, "default, linear, dynamic, proportional, llama3 or yarn", type);
  }
  constexpr const char* original = "original_max_position_embeddings";
  const bool is_around = context.around != nullptr && context.around->has(original);
  rotary.original_context = is_around ? context.around->positive(original)
                                      : keys.positive_or(original, context.positions);
  return type == "yarn" ? with_yarn(rotary, keys, context) : with_llama3(rotary, keys);
}

/// The statement for all layers: in "rope_scaling" or else in "rope_parameters".
RotaryOptions of_all_layers(const ConfigFile& config, RotaryContext context) {
  const char* key = config.is_empty("rope_scaling") ? "rope_parameters" : "rope_scaling";
  const ConfigFile stated = config.object(key).value_or(config.stand_in(key, json::object()));
  for (const char* kind : {"full_attention", "sliding_attention"}) stated.require_none(kind);
  context.around = &config;
  context.whole_channels = has_whole_channels(stated);
  return scaled({.base = config.positive_or("rope_theta", 1e4)}, RotaryKeys({stated}), context);
}

/// The object of "rope_parameters" for one kind of layers, with transformers' fallback.
ConfigFile of_kind(const ConfigFile& parameters, const char* kind) {
  return parameters.object(kind).value_or(
      parameters.stand_in(kind, json::object({{"rope_type", "default"}})));
}

/// The statements for each kind of layers: in "rope_parameters"; the keys of "rope_scaling" are
/// added to those of global layers.
void read_by_kind(const ConfigFile& config, RotaryContext context, LlamaVariant& variant) {
  const ConfigFile parameters =
      config.object("rope_parameters").value_or(config.stand_in("rope_parameters", json::object()));
  if (!parameters.has("full_attention"))  // if they were for all layers, they would be ignored
    for (const char* key : {"rope_type", "type", "rope_theta", "factor"})
      parameters.require_none(key);
  context.whole_channels = has_whole_channels(parameters);
  std::vector<ConfigFile> global{of_kind(parameters, "full_attention")};
  if (const auto scaling = config.object("rope_scaling")) global.insert(global.begin(), *scaling);
  variant.rotary = scaled({.base = config.positive_or("rope_theta", 1e6)},
                          RotaryKeys(std::move(global)), context);
  variant.local_rotary = scaled({.base = config.positive_or("rope_local_base_freq", 1e4)},
                                RotaryKeys({of_kind(parameters, "sliding_attention")}), context);
}

}  // namespace

void read_rotary(const ConfigFile& config, bool by_kind_of_layer, std::int64_t positions,
                 LlamaVariant& variant) {
  const RotaryContext context{.positions = static_cast<double>(positions),
                              .is_partial = is_another_than_one(config, "partial_rotary_factor")};
  if (by_kind_of_layer)
    read_by_kind(config, context, variant);
  else
    variant.rotary = of_all_layers(config, context);
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
