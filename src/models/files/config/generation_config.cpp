#include "models/files/config/generation_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/json_extent.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;
using GenerationJson = nlohmann::ordered_json;

constexpr std::int64_t kMostTokenIds = std::int64_t{1} << 31;

std::optional<std::int64_t> token_in(const GenerationJson& stated) {
  const bool is_token = stated.is_number_unsigned() &&
                        stated.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostTokenIds);
  return is_token ? std::optional(stated.get<std::int64_t>()) : std::nullopt;
}

/// The keys of an object, read by their possible values. A key that is null is not stated.
class GenerationKeys {
 public:
  GenerationKeys(const std::string& text, const std::string& file) : file_(file) {
    std::optional<GenerationJson> parsed = parsed_config(text);
    if (!parsed)
      throw usage_error("load " + file, "a JSON object", "something else or broken JSON",
                        "the file that the model came with");
    root_ = std::move(*parsed);
  }

  const GenerationJson& value(const char* key) const {
    static const GenerationJson nothing;
    const auto found = root_.find(key);
    return found == root_.end() ? nothing : *found;
  }

  std::optional<double> number(const char* key) const {
    if (value(key).is_null()) return std::nullopt;
    return number_in(key, value(key));
  }

  std::optional<std::int64_t> whole(const char* key) const {
    if (value(key).is_null()) return std::nullopt;
    return whole_in(key, value(key));
  }

  std::optional<std::int64_t> token(const char* key) const {
    if (value(key).is_null()) return std::nullopt;
    return token_of(key, value(key));
  }

  /// One or several.
  std::vector<std::int64_t> tokens(const char* key) const {
    const GenerationJson& stated = value(key);
    if (stated.is_null()) return {};
    if (!stated.is_array()) return {token_of(key, stated)};
    return tokens_in(key, stated);
  }

  std::vector<std::vector<std::int64_t>> sequences(const char* key) const {
    std::vector<std::vector<std::int64_t>> sequences;
    for (const GenerationJson& one : list(key)) sequences.push_back(tokens_in(key, one));
    return sequences;
  }

  /// If a sequence is stated twice the last one counts.
  std::vector<SequenceBias> biases(const char* key) const {
    std::vector<SequenceBias> biases;
    std::map<std::vector<std::int64_t>, std::size_t> places;
    for (const GenerationJson& one : list(key)) {
      if (!one.is_array() || one.size() != 2)
        throw wrong(key, "a list of pairs of tokens and a number", one);
      const SequenceBias bias{tokens_in(key, one[0]), number_in(key, one[1])};
      if (const auto [place, is_new] = places.emplace(bias.tokens, biases.size()); is_new)
        biases.push_back(bias);
      else
        biases[place->second] = bias;
    }
    return biases;
  }

  std::optional<EndGrowth> growth(const char* key) const {
    const GenerationJson& stated = value(key);
    if (stated.is_null()) return std::nullopt;
    if (!stated.is_array() || stated.size() != 2) throw wrong(key, "a pair of numbers", stated);
    return EndGrowth{.start = whole_in(key, stated[0]), .factor = number_in(key, stated[1])};
  }

 private:
  const GenerationJson& list(const char* key) const {
    static const GenerationJson empty = GenerationJson::array();
    const GenerationJson& stated = value(key);
    if (stated.is_null()) return empty;
    if (!stated.is_array()) throw wrong(key, "a list", stated);
    return stated;
  }

  double number_in(const char* key, const GenerationJson& stated) const {
    if (!stated.is_number()) throw wrong(key, "a number", stated);
    return stated.get<double>();
  }

  std::int64_t whole_in(const char* key, const GenerationJson& stated) const {
    const std::optional<std::int64_t> count = token_in(stated);
    if (!count) throw wrong(key, "a whole number of at least 0", stated);
    return *count;
  }

  std::int64_t token_of(const char* key, const GenerationJson& stated) const {
    const std::optional<std::int64_t> token = token_in(stated);
    if (!token) throw wrong(key, "a token's id or a list of such", stated);
    return *token;
  }

  std::vector<std::int64_t> tokens_in(const char* key, const GenerationJson& stated) const {
    if (!stated.is_array()) throw wrong(key, "a list of tokens' ids", stated);
    std::vector<std::int64_t> tokens;
    for (const GenerationJson& one : stated) tokens.push_back(token_of(key, one));
    return tokens;
  }

  Error wrong(const std::string& key, const std::string& expected,
              const GenerationJson& stated) const {
    return usage_error(
        "load " + file_, '"' + key + "\" to be " + expected,
        stated.dump(-1, ' ', /*ensure_ascii=*/true, GenerationJson::error_handler_t::replace)
            .substr(0, 80),
        "the file that the model came with");
  }

  std::string file_;
  GenerationJson root_;
};

bool is_above_one(const GenerationJson& stated) {
  return stated.is_number() && stated.get<double>() > 1;
}
bool is_above_zero(const GenerationJson& stated) {
  return stated.is_number() && stated.get<double>() > 0;
}
bool is_not_one(const GenerationJson& stated) {
  return stated.is_number() && stated.get<double>() != 1;
}
bool is_switched_on(const GenerationJson& stated) {
  return stated.is_boolean() && stated.get<bool>();
}
bool is_stated(const GenerationJson& stated) { return !stated.is_null(); }
bool is_quantized(const GenerationJson& stated) { return stated == "quantized"; }

struct OtherWay {
  const char* key;
  bool (*is_taken)(const GenerationJson&);
};

/// transformers' ways to generate something else than the likeliest token by its rules.
constexpr std::array other_ways{OtherWay{"num_beams", is_above_one},
                                OtherWay{"guidance_scale", is_not_one},
                                OtherWay{"penalty_alpha", is_above_zero},
                                OtherWay{"dola_layers", is_stated},
                                OtherWay{"constraints", is_stated},
                                OtherWay{"force_words_ids", is_stated},
                                OtherWay{"watermarking_config", is_stated},
                                OtherWay{"stop_strings", is_stated},
                                OtherWay{"token_healing", is_switched_on},
                                OtherWay{"max_time", is_stated},
                                OtherWay{"cache_implementation", is_quantized}};

/// The keys that change a text and that transformers reads from config.json if there is no
/// generation_config.json.
constexpr std::array generation_keys{"bos_token_id",
                                     "eos_token_id",
                                     "pad_token_id",
                                     "max_length",
                                     "max_new_tokens",
                                     "min_length",
                                     "min_new_tokens",
                                     "early_stopping",
                                     "max_time",
                                     "stop_strings",
                                     "do_sample",
                                     "num_beams",
                                     "num_beam_groups",
                                     "temperature",
                                     "top_k",
                                     "top_p",
                                     "min_p",
                                     "top_h",
                                     "typical_p",
                                     "epsilon_cutoff",
                                     "eta_cutoff",
                                     "repetition_penalty",
                                     "encoder_repetition_penalty",
                                     "length_penalty",
                                     "diversity_penalty",
                                     "penalty_alpha",
                                     "no_repeat_ngram_size",
                                     "encoder_no_repeat_ngram_size",
                                     "bad_words_ids",
                                     "forced_bos_token_id",
                                     "forced_eos_token_id",
                                     "exponential_decay_length_penalty",
                                     "suppress_tokens",
                                     "begin_suppress_tokens",
                                     "sequence_bias",
                                     "token_healing",
                                     "guidance_scale",
                                     "watermarking_config",
                                     "dola_layers",
                                     "constraints",
                                     "force_words_ids",
                                     "cache_implementation"};

LogitRules rules_in(const GenerationKeys& keys) {
  LogitRules rules{.sequence_bias = keys.biases("sequence_bias"),
                   .prompt_penalty = keys.number("encoder_repetition_penalty").value_or(1),
                   .repetition_penalty = keys.number("repetition_penalty").value_or(1),
                   .no_repeat_ngram = keys.whole("no_repeat_ngram_size").value_or(0),
                   .no_prompt_ngram = keys.whole("encoder_no_repeat_ngram_size").value_or(0),
                   .bad_words = keys.sequences("bad_words_ids"),
                   .min_length = keys.whole("min_length").value_or(0),
                   .min_new_tokens = keys.whole("min_new_tokens").value_or(0),
                   .forced_begin = keys.token("forced_bos_token_id"),
                   .forced_end = keys.tokens("forced_eos_token_id"),
                   .end_growth = keys.growth("exponential_decay_length_penalty"),
                   .suppressed = keys.tokens("suppress_tokens"),
                   .suppressed_first = keys.tokens("begin_suppress_tokens")};
  if (!keys.value("min_new_tokens").is_null()) rules.min_length = 0;  // it replaces min_length
  return rules;
}

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

GenerationJson generation_part(const GenerationJson& config) {
  GenerationJson part = GenerationJson::object();
  for (const char* key : generation_keys)
    if (const auto found = config.find(key); found != config.end() && !found->is_null())
      part[key] = *found;
  return part;
}

/// How a folder wants texts to be generated, and the file that states it.
struct StatedGeneration {
  fs::path file;
  std::string text;  ///< empty: nothing is stated
};

/// As transformers does it: a generation_config.json that is an object stands alone, be it empty.
StatedGeneration stated_generation(const fs::path& folder) {
  if (const fs::path file = folder / kGenerationConfig; is_file(file)) {
    std::string text = read_file(file);
    if (parsed_config(text)) return {.file = file, .text = std::move(text)};
  }
  StatedGeneration stated{.file = folder / data::kModelConfig, .text = {}};
  const auto config = is_file(stated.file) ? parsed_config(read_file(stated.file)) : std::nullopt;
  const GenerationJson part = config ? generation_part(*config) : GenerationJson::object();
  if (!part.empty())
    stated.text = part.dump(2, ' ', false, GenerationJson::error_handler_t::replace) + '\n';
  return stated;
}

}  // namespace

std::optional<nlohmann::ordered_json> parsed_config(const std::string& text) {
  // An ordered object takes time quadratic in its members.
  constexpr std::size_t most_members = 20'000;
  if (const JsonExtent extent = extent_of_json(text);
      extent.depth > kDeepestJson || extent.members > most_members)
    return std::nullopt;
  GenerationJson parsed = GenerationJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? std::optional(std::move(parsed)) : std::nullopt;
}

GenerationConfig parse_generation_config(const std::string& text, const std::string& file) {
  const GenerationKeys keys(text, file);
  GenerationConfig config{
      .end_tokens = keys.tokens("eos_token_id"), .rules = rules_in(keys), .not_applied = {}};
  for (const OtherWay& way : other_ways)
    if (way.is_taken(keys.value(way.key))) config.not_applied.emplace_back(way.key);
  return config;
}

GenerationConfig read_generation_config(const fs::path& folder) {
  const StatedGeneration stated = stated_generation(folder);
  return parse_generation_config(stated.text.empty() ? "{}" : stated.text, stated.file.string());
}

std::string generation_config_text(const fs::path& folder) {
  return stated_generation(folder).text;
}

SpecialTokens stated_special_tokens(const nlohmann::ordered_json& config) {
  const auto token_at = [&](const char* key) {
    return token_in(config.value(key, GenerationJson()));
  };
  SpecialTokens tokens{
      .begin = token_at("bos_token_id"), .pad = token_at("pad_token_id"), .ends = {}};
  const GenerationJson ends = config.value("eos_token_id", GenerationJson());
  for (const GenerationJson& end : ends.is_array() ? ends : GenerationJson::array({ends}))
    if (const std::optional<std::int64_t> token = token_in(end)) tokens.ends.push_back(*token);
  return tokens;
}

nlohmann::ordered_json with_special_tokens(nlohmann::ordered_json config,
                                           const SpecialTokens& tokens) {
  if (tokens.begin) config["bos_token_id"] = *tokens.begin;
  if (tokens.ends.size() == 1) config["eos_token_id"] = tokens.ends.front();
  if (tokens.ends.size() > 1) config["eos_token_id"] = tokens.ends;
  if (tokens.pad) config["pad_token_id"] = *tokens.pad;
  return config;
}

}  // namespace accrue::models
